#ifndef SECOND_H
#define SECOND_H
__constant int second_table[8] = { 2, 3, 5, 7, 11, 13, 17, SECOND_LAST };
#endif
