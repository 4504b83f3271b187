#ifndef FIRST_H
#define FIRST_H
#include "deep/deeper.h"
#define FIRST_SCALE 3
typedef struct { int left, right; } pair_t;
#endif
