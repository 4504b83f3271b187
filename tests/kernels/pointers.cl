// Pointers that are compared, subtracted, kept in structures and arrays, and chosen by conditions.

__kernel void to_the_end(__global int *a, int n)
{
    __global int *p = a + (int)get_global_id(0) * n, *e = p + n;
    while (p < e) {
        *p = 1;
        p++;
    }
}

__kernel void until_equal(__global int *a, int n)
{
    __global int *e = a + ((int)get_global_id(0) + 1) * n;
    for (__global int *p = e - n; p != e; p += 1)
        *p = 1;
}

__kernel void backwards(__global int *a, int n)
{
    __global int *first = a + (int)get_global_id(0) * n, *p = first + n - 1;
    while (p >= first)
        *p-- = 1;
}

__kernel void by_twos(__global int *a, int n)
{
    __global int *p = a + (int)get_global_id(0) * 8, *last = p + n;
    for (; last > p; p += 2)
        p[0] = 1;
}

__kernel void with_the_last(__global char *bytes, int n)
{
    __global short *p = (__global short *)(bytes + (int)get_global_id(0) * 16);
    __global char *last = (__global char *)p + n;
    while ((__global char *)p <= last)
        *p++ = 1;
}

__kernel void which_end(__global int *a, int n)
{
    __global int *p = a + get_global_id(0), *middle = a + n;
    if (p == middle)
        a[20] = 3;
    if (p + 1 > middle)
        *p = 1;
    if (p - a < 3)
        p[24] = 2;
    if (a - p <= -14)
        p[32] = 2;
}

__kernel void by_distance(__global int *a, __global int *b, int n)
{
    __global int *p = a + get_global_id(0), *q = p + n;
    b[q - a] = 1;
    b[((__global char *)q - (__global char *)p) / 4 + 16] = 2;
    b[(p - q) + n + 24] = 3;
    b[(__global short *)q - (__global short *)a + 32] = 4;
}

__kernel void two_objects(__global int *a, __global int *b)
{
    __global int *p = a + get_global_id(0), *q = b + get_global_id(0);
    if (p != q)
        *p = 1;
    if (p < b + 4)
        *q = 1;
}

__kernel void end_by_data(__global int *a, __global const int *b)
{
    __global int *p = a + 8 * get_global_id(0), *e = p;
    if (b[get_global_id(0)] & 1)
        e += 4;
    while (p < e)
        *p++ = 1;
}

__kernel void begin_by_data(__global int *a, __global const int *b)
{
    __global int *p = a + 8 * get_global_id(0), *e = p + 8;
    p += b[get_global_id(0)] & 7;
    while (p < e)
        *p++ = 1;
}

__kernel void put_elsewhere(__global int *a, __global int *b, int n)
{
    __global int *p = a + 4 * get_global_id(0), *e = p + 4;
    for (int i = 0; i < n && p < e; i++) {
        *p++ = 1;
        if (i == 2)
            p = b + 4 * get_global_id(0);
        if (i == 3)
            e = b + 4 * get_global_id(0) + 3;
    }
}

__kernel void set_back(__global int *a, int n)
{
    __global int *start = a + 4 * get_global_id(0), *p = start, *e = p + 3;
    for (int i = 0; i < n && p < e; i++) {
        *p++ = 1;
        if (i == 1)
            p = start;
    }
}

void advance(__global int **p)
{
    *p += 2;
}

__kernel void given_away(__global int *a)
{
    __global int *p = a + 4 * get_global_id(0), *e = p + 3;
    while (p < e) {
        *p = 1;
        advance(&p);
    }
}

__kernel void wraps(__global int *a, uint n)
{
    uint x = get_global_id(0);
    __global int *p = a + (x - n), *e = a + 8;
    if (x >= n)
        while (p < e)
            *p++ = 1;
}

__kernel void wraps_narrow(__global int *a, int n)
{
    uchar x = get_global_id(0) * 32 + n;
    __global int *p = a + x, *e = a + (uchar)(x + 3);
    for (; p < e; p++)
        *p = 1;
}

__kernel void never(__global int *a, int n)
{
    __global int *p = a + get_global_id(0) + n, *e = p - n;
    while (p < e)
        *p++ = 1;
    for (p = a + n; p > a + 16; p--)
        p[-1] = 2;
}

int sum_of(const int *from, const int *to)
{
    int sum = 0;
    while (from < to)
        sum += *from++;
    return sum;
}

__kernel void own_items(__global int *a)
{
    int x = get_global_id(0), at[4] = {1, 2, 4, 8}, one = 3;
    int *p = at, *e = at + 4;
    if (p == &one)
        a[x] = 1;
    while (p != e)
        *p++ += 16;
    a[x + at[3]] = 1;
    a[x + sum_of(at, at + 3) % 8] = 2;
    if (&at[1] - at == 1)
        a[x + 48] = 1;
}

__kernel void one_by_condition(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *p = (n & 1) ? a : b;
    p[x] = 1;
    __global int *q = a + 16;
    if (n > 2)
        q = b + 16;
    q[x] = p[x + 1];
}
