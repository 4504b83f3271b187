// Vectors, structures, helpers, copies of groups, data.

typedef struct { int id; float where[3]; short kind; } item_t;
typedef struct { int w, h; float scale; } size_s;

void put(__global int *at, int value) { *at = value; }

int flat(int2 p, int w) { return p.y * w + p.x; }

int first_of(int i, int n)
{
    if (i < n)
        return i;
    return i - n;
}

void bump(int *i) { *i += 4; }

__constant int TABLE[4] = {3, 0, 2, 1};

__kernel void four_floats(__global const float4 *a, __global float4 *b) { b[get_global_id(0)] = a[get_global_id(0)]; }

__kernel void components(__global float4 *b, int which)
{
    int i = get_global_id(0);
    b[i].x = 1.0f;
    b[i].zw = (float2)(2.0f);
    b[i + 8].s1 = 3.0f;
}

__kernel void three_floats(__global float3 *b) { b[get_global_id(0)] = (float3)(1.0f); }

__kernel void vector_store(__global const float *a, __global float *b)
{
    size_t i = get_global_id(0);
    vstore4(vload4(i, a), i, b);
    vstore3((float3)(0.0f), i, b + 256);
    vstore2(vload2(2 * i, a), i, b + 512);
}

__kernel void coordinates(__global int *b, int w)
{
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    p += (int2)(1, 2);
    b[flat(p, w)] = 1;
}

__kernel void int4_of_ids(__global int *b, int4 by)
{
    int4 p = (int4)(get_global_id(0)) * by;
    p.y = p.x + 1;
    b[p.x] = 1;
    b[p.y] = 2;
    b[p.w + by.s2] = 3;
}

__kernel void fields(__global item_t *items, int n)
{
    int i = get_global_id(0);
    if (i >= n)
        return;
    items[i].id = i;
    items[i].where[1] = 2.0f;
    items[n + i].kind = 1;
}

__kernel void whole_items(__global const item_t *from, __global item_t *to)
{
    to[get_global_id(0)] = from[get_global_id(0)];
}

__kernel void size_argument(__global int *b, size_s size)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x < size.w && y < size.h)
        b[y * size.w + x] = 1;
}

__kernel void helpers(__global int *b, int n)
{
    int i = get_global_id(0);
    put(b + first_of(i, n), i);
    put(&b[i + 100], i);
}

__kernel void by_pointer(__global int *b)
{
    int i = get_global_id(0);
    bump(&i);
    if (i >= 0 && i < 64)
        b[i] = 1;
}

__kernel void table(__global int *b) { b[4 * get_group_id(0) + TABLE[get_local_id(0) & 3]] = 1; }

__kernel void group_copy(__global const int *a, __global int *b, __local int *tile)
{
    size_t n = get_local_size(0), from = get_group_id(0) * n;
    event_t e = async_work_group_copy(tile, a + from, n, 0);
    wait_group_events(1, &e);
    barrier(CLK_LOCAL_MEM_FENCE);
    e = async_work_group_copy(b + from, tile, n, 0);
    wait_group_events(1, &e);
}

__kernel void group_copy_strided(__global int *b, __local int *tile, int w)
{
    tile[get_local_id(0)] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    event_t e = async_work_group_strided_copy(b + get_group_id(0), tile, get_local_size(0), w, 0);
    wait_group_events(1, &e);
}

__kernel void reduction(__global const int *a, __global int *sums, __local int *part)
{
    int lid = get_local_id(0);
    part[lid] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = get_local_size(0) / 2; s > 0; s >>= 1) {
        if (lid < s)
            part[lid] += part[lid + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid == 0)
        sums[get_group_id(0)] = part[0];
}

__kernel void gather(__global const int *at, __global const int *a, __global int *b)
{
    int i = get_global_id(0);
    b[i] = a[at[i] & 63];
}

__kernel void scatter(__global const int *at, __global int *b, int n)
{
    int k = at[get_global_id(0)];
    if (k >= 0 && k < n)
        b[k] = 1;
}

__kernel void private_array(__global int *b)
{
    int order[2] = {1, 0};
    int i = get_global_id(0);
    b[2 * i + (order[i & 1] & 1)] = 1;
}

__kernel void counts(__global int *b, __global int *total)
{
    atomic_inc(total);
    atomic_add(&b[get_group_id(0)], 2);
}

__kernel void increments(__global int *b) { b[get_global_id(0)]++; --b[get_global_id(0) + 64]; }

__kernel void any_dimension(__global int *b)
{
    int at = 0;
    for (int d = 0; d < 2; d++)
        at = at * get_global_size(d) + get_global_id(d);
    b[at] = 1;
}

__kernel void matrix_multiply(__global const float *a, __global const float *b, __global float *c, int m, int n, int k,
                              __local float *at, __local float *bt)
{
    int lx = get_local_id(0), ly = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
    int size = get_local_size(0);
    float sum = 0.0f;
    for (int t = 0; t < k; t += size) {
        at[ly * size + lx] = y < m && t + lx < k ? a[y * k + t + lx] : 0.0f;
        bt[ly * size + lx] = x < n && t + ly < k ? b[(t + ly) * n + x] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < size; ++i)
            sum += at[ly * size + i] * bt[i * size + lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (x < n && y < m)
        c[y * n + x] = sum;
}

typedef union { int whole; short parts[2]; float real; } word_u;

__kernel void union_of_words(__global int *b, int n)
{
    word_u u;
    u.whole = 5;
    u.real = (float)get_global_id(0) * n;
    b[u.whole & 31] = 1;
    u.whole = get_global_id(0);
    b[u.whole + 32] = 2;
}

struct Inner {
    int x, y;
};
struct Outer {
    struct Inner inner;
    int z;
};
struct Steps {
    int2 by;
    int of;
};

__kernel void braces_left_out(__global int *b, int n)
{
    int i = get_global_id(0);
    struct Outer s = {1, 2}, t = {{i, 1}, 3}, u = {t.inner, 2}, v = {i, 1, 5};
    struct Steps w = {1, 2}, x = {(int2)(2, 3), 1};
    b[8 * i + s.z] = n;
    b[8 * i + t.z + u.z] = n;
    b[8 * v.inner.x + v.z + v.inner.y] = n;
    b[8 * i + w.of + x.of + 1] = n;
}

void put_at(__global int p[], int i)
{
    p += 1;
    p[4 * i] = i;
    *p++ = (p + 4 * i)[1] = i;
}

int sum_of(__global const int row[restrict 4], __constant int table[], __local int mine[4])
{
    return row[0] + *(row + 3) + table[1] + mine[0];
}

__kernel void array_parameters(__global int b[], __global const int a[4], __constant int table[8], __local int mine[])
{
    int i = get_global_id(0);
    mine[get_local_id(0)] = i;
    barrier(CLK_LOCAL_MEM_FENCE);
    put_at(b + 2 + 4 * i, 0);
    b[4 * i + 1] = sum_of(a + 2 * i, table, mine) + table[i];
    a = b;
}
