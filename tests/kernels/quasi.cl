// Floor divisions, modulo, bits, minima, and what wraps.

__kernel void flat_to_matrix(__global int *b, int w)
{
    int i = get_global_id(0), x = i % w, y = i / w;
    b[y * (w + 2) + x] = 1;
}

__kernel void there_and_back(__global int *b, int w)
{
    int i = get_global_id(0), x = i % w, y = i / w;
    b[y * w + x] = 1;
}

__kernel void clamped(__global const int *a, __global int *b, int n)
{
    int i = get_global_id(0);
    b[i] = a[max(i - 1, 0)] + a[min(i + 1, n - 1)] + a[clamp(i - 4, 0, n - 1)];
}

__kernel void clamped_by_choice(__global const int *a, __global int *b, int n)
{
    int i = get_global_id(0);
    int left = i == 0 ? n - 1 : i - 1, right = i + 1 < n ? i + 1 : 0;
    b[i] = a[left] + a[right];
}

__kernel void store_clamped(__global int *b, int n) { b[min((int)get_global_id(0), n - 1)] = 1; }

__kernel void even_odd(__global int *b)
{
    int i = get_global_id(0);
    if (i % 2 == 0)
        b[i] = 1;
    else if ((i & 3) == 1)
        b[i] = 2;
}

__kernel void butterfly(__global int *b, int bit)
{
    uint i = get_global_id(0);
    uint low = i & ((1u << bit) - 1), at = ((i >> bit) << (bit + 1)) | low;
    b[at] = 1;
    b[at ^ (1u << bit)] = 2;
}

__kernel void tiles(__global int *b, int w)
{
    int x = get_group_id(0) * get_local_size(0) + get_local_id(0);
    int y = get_group_id(1) * get_local_size(1) + get_local_id(1);
    b[y * w + x] = 1;
}

__kernel void negative_division(__global int *b, int c)
{
    int i = (int)get_global_id(0) - c;
    b[i / 4 + c] = 1;
    b[64 + i % 4 + 4] = 2;
}

__kernel void wraps_below(__global int *b, uint n)
{
    uint i = get_global_id(0);
    if (i - 3u < n)
        b[i] = 1;
}

__kernel void guarded_minus_one(__global int *b)
{
    uint i = get_global_id(0);
    if (i > 0)
        b[i - 1] = 1;
}

__kernel void narrow(__global int *b)
{
    uchar i = (uchar)(get_global_id(0) * 40);
    b[i] = 1;
}

__kernel void narrow_short(__global int *b, short by)
{
    short i = (short)(get_global_id(0) + by);
    if (i >= 0)
        b[i] = 1;
}

__kernel void signed_unsigned(__global int *b, int n)
{
    uint i = get_global_id(0);
    if (i > (uint)n)
        return;
    b[i] = 1;
}

__kernel void product_of_ids(__global int *b) { b[get_global_id(0) * get_global_id(1)] = 1; }

__kernel void parity_of_group(__global int *b)
{
    if (get_group_id(0) % 2)
        b[get_global_id(0)] = 1;
}

__kernel void big_mask(__global int *b, int mask) { b[get_global_id(0) & mask] = 1; }

__kernel void variable_shift(__global int *b) { b[1u << (get_local_id(0) & 3)] = 1; }

__kernel void multiplied24(__global int *b, int w) { b[mad24((int)get_global_id(1), w, (int)get_global_id(0))] = 1; }

__kernel void absolute(__global int *b, int c) { b[abs((int)get_global_id(0) - c)] = 1; }

__kernel void not_zero(__global int *b, int n)
{
    int i = get_global_id(0);
    if (!(i >= n) && !!i)
        b[i] = 1;
}

__kernel void from_float(__global int *b, int n)
{
    int i = (int)(get_global_id(0) * 0.5f);
    if (i >= 0 && i < n)
        b[i] = 1;
}

__constant int STEPS[5] = {3, -1, 4, 1, 5};
__constant char2 WAYS[4] = {(char2)(0, 1), (char2)(1, 0), (char2)(0, -1), (char2)(-1, 0)};
constant uint POWERS[] = {1, 2, 4, 8, 16, 32};

__kernel void table_offsets(__global int *b, __global const int *a)
{
    int i = get_global_id(0);
    for (int k = 0; k < 4; ++k)
        b[8 * i + 2 * k] = a[i + STEPS[k] + 1];
}

__kernel void table_scatter(__global int *b, int w)
{
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1;
    for (int d = 0; d < 4; ++d)
        b[4 * ((y + WAYS[d].y) * w + x + WAYS[d].x) + d] = d;
}

__kernel void table_of_group(__global int *b, int n)
{
    int g = get_group_id(0);
    if (g < 6 && get_local_id(0) < (int)POWERS[g])
        b[32 * g + get_local_id(0)] = n;
}

__kernel void table_from_data(__global int *b, __global const int *a)
{
    b[8 * get_global_id(0) + STEPS[a[get_global_id(0)] & 3] + 1] = 1;
}

__kernel void truth_as_index(__global const int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    bool yes = 4, small = x < n, odd = x & 1;
    b[4 * x + yes + 2 * odd] = a[2 * x + small];
}

__kernel void either_of_two(__global int *b, int n)
{
    int x = get_global_id(0), i = 1, k = 0;
    n ?: (i = 5);
    k++ ?: (b[8 * x] = 1);
    b[8 * x + i + k] = n ?: 3;
}

__kernel void remainder_twice(__global const int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    b[8 * x + (x % 8 + 8) % 8] = a[(x & 7) % 8];
    if (((x + 3) % 8 & 7) > 4)
        b[8 * x + ((x + 1) % 8 & 7)] = n;
}

__kernel void radix_4(__global const int *a, __global int *b, int p)
{
    int n = get_global_size(0), i = get_global_id(0), k = i & (p - 1), to = ((i - k) << 2) + k;
    for (int m = 0; m < 4; m++)
        b[to + m * p] = a[i + m * n];
}

__kernel void until_a_remainder(__global int *b, int n)
{
    int x = get_global_id(0);
    for (int t = 0; t < n && t % 4 < 3; t++)
        b[x % 8 * 8 + x / 8 * 80 + t] = 1;
}

__kernel void red_or_black(__global int *a, int w, int h, int colour)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1 && (x + y) % 2 == colour)
        a[y * w + x] = a[y * w + x - 1] + a[y * w + x + 1] + a[(y - 1) * w + x] + a[(y + 1) * w + x];
}

__kernel void every_third(__global int *b, int n, int from)
{
    int x = get_global_id(0);
    for (int y = 0; y < n; y++)
        if ((x + 2 * y + from) % 3 == 1)
            b[y * 40 + x] = 1;
}
