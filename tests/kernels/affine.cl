// Affine indices, guards and early returns.

__kernel void copy(__global const int *a, __global int *b) { b[get_global_id(0)] = a[get_global_id(0)]; }

__kernel void copy_guarded(__global const int *a, __global int *b, int n)
{
    int i = get_global_id(0);
    if (i < n)
        b[i] = a[i];
}

__kernel void copy_early(__global const int *a, __global int *b, uint n)
{
    uint i = get_global_id(0);
    if (i >= n)
        return;
    b[i] = a[i];
}

__kernel void reversed(__global const int *a, __global int *b, int n)
{
    int i = get_global_id(0);
    if (i < n)
        b[n - 1 - i] = a[i];
}

__kernel void every_third(__global int *b, int first)
{
    b[3 * get_global_id(0) + first] = 1;
}

__kernel void by_group(__global int *b) { b[get_group_id(0)] = 1; }

__kernel void leader(__global const float *a, __global float *b, int n)
{
    size_t i = get_global_id(0);
    float v = i < n ? a[i] : 0.0f;
    if (get_local_id(0) == 0)
        b[get_group_id(0)] = v;
}

__kernel void last_of_group(__global int *b)
{
    if (get_local_id(0) == get_local_size(0) - 1)
        b[get_global_id(0)] = 1;
}

__kernel void matrix(__global const float *a, __global float *b, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x < w && y < h)
        b[y * w + x] = a[y * w + x] + 1.0f;
}

__kernel void matrix_early(__global const float *a, __global float *b, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h)
        return;
    b[y * w + x] = a[y * w + x] + 1.0f;
}

__kernel void turned(__global const float *a, __global float *b, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x < w && y < h)
        b[x * h + y] = a[y * w + x];
}

__kernel void interior(__global const float *a, __global float *b, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        b[y * w + x] = a[y * w + x - 1] + a[y * w + x + 1] + a[(y - 1) * w + x] + a[(y + 1) * w + x];
}

__kernel void border(__global int *b, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x < w && y < h && (x == 0 || y == 0 || x == w - 1 || y == h - 1))
        b[y * w + x] = 1;
}

__kernel void not_five(__global int *b)
{
    if (get_global_id(0) != 5)
        b[get_global_id(0)] = 1;
}

__kernel void lower_triangle(__global int *b, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x <= y && y < n)
        b[y * n + x] = 1;
}

__kernel void diagonal(__global int *b, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x == y && x < n)
        b[y * n + x] = 1;
}

__kernel void volume(__global const float *a, __global float *b, int w, int h)
{
    size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    b[(z * h + y) * w + x] = a[(z * h + y) * w + x];
}

__kernel void both_sides(__global const int *a, __global int *b)
{
    int i = get_global_id(0);
    if (a[i] > 3)
        b[i] = 1;
    else
        b[i] = 2;
}

__kernel void one_side(__global const int *a, __global int *b)
{
    int i = get_global_id(0);
    if (a[i] > 3)
        b[i] = 1;
}

__kernel void zero_then_maybe(__global const int *a, __global int *b)
{
    int i = get_global_id(0);
    b[i] = 0;
    if (a[i] > 3)
        b[i] = 1;
}

__kernel void flagged(__global int *b, int flag)
{
    if (flag)
        b[get_global_id(0)] = flag;
    else
        b[get_global_size(0) - 1 - get_global_id(0)] = 2;
}

__kernel void joined(__global int *b, int n)
{
    int i = get_global_id(0), at = i;
    if (i < n)
        at = i + 8;
    else
        at = i - n;
    b[at] = 1;
}

__kernel void nested_returns(__global int *b, int n, int m)
{
    int i = get_global_id(0);
    if (i < n) {
        if (i < m)
            return;
        b[i] = 1;
    }
    b[i + 100] = 2;
}

__kernel void offset_ids(__global int *b)
{
    b[get_global_id(0) - get_global_offset(0)] = get_global_offset(0);
}

__kernel void pointers(__global int *a, int n)
{
    __global int *p = a + n;
    p += get_global_id(0);
    *p = 1;
    *(p - n) = 2;
    p[2 * n] = *(p + n);
}

__kernel void choice_of_pointer(__global int *a, __global int *b, int which)
{
    __global int *p = which ? a : b;
    p[get_global_id(0)] = 1;
}

__kernel void data_choice_of_pointer(__global int *a, __global int *b, __global const int *c)
{
    __global int *p = c[0] > 1 ? a : b;
    p[get_global_id(0)] = 1;
}

__kernel void chars(__global uchar *b) { b[get_global_id(0) * 2 + 1] = 7; }

__kernel void cast_to_bytes(__global int *b)
{
    __global char *p = (__global char *)b;
    p[get_global_id(0) + 3] = 1;
}

__kernel void switched(__global int *b, int how)
{
    int i = get_global_id(0);
    switch (how) {
    case 0: b[i] = 1; break;
    case 1: b[2 * i] = 1; // goes on
    case 2: b[i + 64] = 2; break;
    default: b[0] = 1;
    }
}
