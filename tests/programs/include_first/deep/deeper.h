#ifndef DEEPER_H
#define DEEPER_H
#include <second.h>
inline int deeper(int v) { return second_table[v & 7] + v; }
#endif
