// Loops.

__kernel void dot_rows(__global const float *a, __global const float *x, __global float *y, int n)
{
    int row = get_global_id(0);
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * x[k];
    y[row] = sum;
}

__kernel void grid_stride(__global const int *a, __global int *b, int n)
{
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        b[i] = a[i];
}

__kernel void grid_stride_while(__global const int *a, __global int *b, uint n)
{
    uint i = get_global_id(0);
    while (i < n) {
        b[i] = a[i];
        i += get_global_size(0);
    }
}

__kernel void descending(__global int *b, int n)
{
    int g = get_global_id(0);
    for (int k = n - 1; k >= 0; k--)
        b[g * n + k] = k;
}

__kernel void descending_unsigned(__global int *b, uint n)
{
    uint g = get_global_id(0);
    for (uint k = n; k > 0; --k)
        b[g * n + k - 1] = k;
}

__kernel void countdown(__global int *b, int n)
{
    __global int *p = b + get_global_id(0) * n;
    int k = n;
    while (k--)
        *p++ = k;
}

__kernel void step_two(__global int *b, int n, int step)
{
    for (int k = 1; k <= n; k += step)
        b[get_global_id(0) * 40 + k] = k;
}

__kernel void triangle_loop(__global int *b, int n)
{
    int y = get_global_id(0);
    for (int x = 0; x <= y; x++)
        b[y * n + x] = 1;
}

__kernel void rest_of_row(__global int *b, int n, int k)
{
    int y = get_global_id(0);
    for (int x = k + 1; x < n; x++)
        b[y * n + x] = 1;
}

__kernel void nested(__global const int *a, __global int *b, int w, int h)
{
    int z = get_global_id(0);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            b[(z * h + y) * w + x] = a[(z * h + y) * w + x];
}

__kernel void secondary(__global const int *a, __global int *b, int n, int stride)
{
    int from = get_global_id(0), to = get_global_id(0) * n;
    for (int k = 0; k < n; k++) {
        b[to] = a[from];
        to++;
        from += stride;
    }
}

__kernel void conditional_induction(__global const int *a, __global int *b, int n)
{
    int at = get_global_id(0) * n;
    for (int k = 0; k < n; k++)
        if (a[get_global_id(0) * n + k] > 0)
            b[at++] = k;
}

__kernel void with_continue(__global const int *a, __global int *b, int n)
{
    int g = get_global_id(0);
    for (int k = 0; k < n; k++) {
        if (k == 2)
            continue;
        b[g * n + k] = a[g * n + k];
    }
}

__kernel void skipping_continue(__global int *b, int n)
{
    int g = get_global_id(0), at = 0;
    for (int k = 0; k < n; k++) {
        if (k & 1)
            continue;
        b[g * n + at] = k;
        at++;
    }
}

__kernel void with_break(__global const int *a, __global int *b, int n)
{
    int g = get_global_id(0);
    for (int k = 0; k < n; k++) {
        if (a[g * n + k] == 1)
            break;
        b[g * n + k] = 2;
    }
}

__kernel void plain_break(__global int *b, int n, int limit)
{
    int g = get_global_id(0);
    for (int k = 0; k < n; k++) {
        int at = g * n + k;
        if (at >= limit)
            break;
        b[at] = 2;
    }
}

__kernel void write_then_break(__global int *b, int n, int limit)
{
    int g = get_global_id(0);
    for (int k = 0; k < n; k++) {
        b[g * n + k] = 2;
        if (k >= limit)
            break;
    }
}

__kernel void return_in_loop(__global const int *a, __global int *b, int n)
{
    int g = get_global_id(0);
    for (int k = 0; k < n; k++)
        if (a[k] > 1)
            return;
    b[g] = 1;
}

__kernel void return_at_bound(__global int *a, int n)
{
    int i = get_global_id(0);
    for (int k = 0; k < 8; k++) {
        if (i * 8 + k >= n)
            return;
        a[i * 8 + k] = 1;
    }
}

__kernel void return_in_inner_loop(__global int *a, int n, int m)
{
    int i = get_global_id(0);
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 4; k++) {
            if (j * 4 + k >= m)
                return;
            a[i * 12 + j * 4 + k] = 1;
        }
    a[i * 12 + n] = 2;
}

__kernel void return_after_write(__global int *a, int n)
{
    int i = get_global_id(0);
    for (int k = 0; k < 8; k++) {
        a[i * 8 + k] = 1;
        if (i * 8 + k >= n)
            return;
    }
    a[i * 8] = 3;
}

__kernel void return_and_break(__global int *a, int n, int m)
{
    int i = get_global_id(0);
    for (int k = 0; k < 8; k++) {
        if (k >= m)
            break;
        if (i + k >= n)
            return;
        a[i * 8 + k] = 1;
    }
    a[i * 8] = 2;
}

__kernel void return_at_one(__global int *a, int n)
{
    int i = get_global_id(0);
    for (int k = 0; k < 8; k++) {
        if (k == n)
            return;
        a[i * 8 + k] = 1;
    }
}

__kernel void return_and_continue(__global int *a, int n)
{
    int i = get_global_id(0);
    for (int k = 0; k < 8; k++) {
        if ((k & 1) == 0)
            continue;
        if (k >= n)
            return;
        a[i * 8 + k] = 1;
    }
}

__kernel void return_in_switch(__global int *a, int n, int m)
{
    int i = get_global_id(0);
    for (int k = 0; k < 8; k++) {
        switch (m) {
        case 0:
            if (k >= n)
                return;
            break;
        case 1:
            if (k > i)
                return;
            if (k > n)
                break;
            a[i * 8] = 2;
            break;
        default:
            return;
        }
        a[i * 8 + k] = 1;
    }
}

int first_at_least(int n, __global int *a, int i)
{
    for (int k = 0; k < 8; k++) {
        if (k >= n)
            return k;
        a[i * 8 + k] = 1;
    }
    return 8;
}

__kernel void return_of_helper(__global int *a, int n)
{
    int i = get_global_id(0);
    int k = first_at_least(n, a, i);
    if (k < 8)
        a[i * 8 + k] = 5;
}

__kernel void return_of_all(__global int *a, int n)
{
    int i = get_global_id(0), k = 0;
    while (k < 8) {
        if (i > n)
            return;
        else
            a[i * 8 + k] = 1;
        k += 1;
    }
}

__kernel void return_of_do(__global int *a, int n)
{
    int i = get_global_id(0), k = 0;
    do {
        if (k >= n)
            return;
        a[i * 8 + k] = 1;
    } while (++k < 8);
}

__kernel void do_once_more(__global int *b, int n)
{
    int g = get_global_id(0), k = 0;
    do {
        b[g * (n + 1) + k] = k;
        k++;
    } while (k < n);
}

__kernel void until_equal(__global int *b, int n)
{
    int g = get_global_id(0);
    for (int k = 0; k != n; k++)
        b[g * n + k] = k;
}

__kernel void doubling(__global int *b, int n)
{
    for (int s = 1; s < n; s *= 2)
        b[get_global_id(0) * n + s] = s;
}

__kernel void halving(__global int *b)
{
    int lid = get_local_id(0);
    for (int s = get_local_size(0) / 2; s > 0; s >>= 1)
        if (lid < s)
            b[get_group_id(0) * get_local_size(0) + lid + s] = s;
}

__kernel void data_bound(__global const int *rows, __global int *b)
{
    int g = get_global_id(0);
    for (int k = rows[g] & 3; k < (rows[g + 1] & 7); k++)
        b[g * 8 + k] = k;
}

__kernel void after_loop(__global int *b, int n)
{
    int k, g = get_global_id(0);
    for (k = 0; k < n; k += 3)
        b[g * 64 + k] = k;
    b[g * 64 + k] = -1;
}

__kernel void unrolled_table(__global int *b)
{
    int g = get_global_id(0), at = 1;
    for (int k = 0; k < 4; k++) {
        b[g * 64 + at] = k;
        at = at * 3 + 1;
    }
}

__kernel void changed_bound(__global int *b, int n)
{
    int g = get_global_id(0), m = n;
    for (int k = 0; k < m; k++) {
        b[g * n + k] = k;
        m = m - 1;
    }
}

__kernel void swapped(__global int *a, __global int *b, int n)
{
    __global int *from = a, *to = b;
    for (int k = 0; k < n; k++) {
        to[get_global_id(0)] = from[get_global_id(0)] + 1;
        __global int *other = from;
        from = to;
        to = other;
    }
}

__kernel void both_in_loop(__global const int *a, __global int *b, int n)
{
    int g = get_global_id(0);
    for (int k = 0; k < n; k++) {
        if (a[k] > g)
            b[g * n + k] = 1;
        else
            b[g * n + k] = 2;
    }
}

__kernel void read_before_break(__global const int *a, __global int *b, int n)
{
    int x = get_global_id(0), value = 0;
    for (int k = 0;; k++) {
        value = a[x * 8 + k];
        if (k >= n)
            break;
    }
    b[x] = value;
}

__kernel void read_in_condition(__global const int *a, __global int *b, int n)
{
    int x = get_global_id(0), value, k = 0;
    while (value = a[x * 8 + k], k < n)
        k++;
    b[x] = value;
}

__kernel void write_in_condition(__global int *b, int n)
{
    int x = get_global_id(0), k = 0;
    while ((b[x * 8 + k] = k) < n)
        k++;
}

__kernel void write_in_condition_and_leave(__global const int *a, __global int *b, int n)
{
    int x = get_global_id(0), k = 0;
    while (b[x * 8 + k] = 1, k < n) {
        if (a[x] == k)
            break;
        k++;
    }
}

__kernel void signed_character(__global int *b)
{
    b[get_global_id(0) + 1 + '\377'] = 1;
}

__kernel void pointer_at_break(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *p = a;
    for (int k = 0; k < n; k++) {
        p = b;
        if (k == x)
            break;
        p = a;
    }
    p[x] = 1;
}

__kernel void pointer_in_condition(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0), k = 0;
    __global int *p = a;
    while (p = b, k < n) {
        p = a;
        k++;
    }
    p[x] = 1;
}

__kernel void do_and_leave(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0), k = 0;
    __global int *p = a;
    do {
        if (x > 3)
            break;
        p = b;
    } while (++k < n);
    p[x] = 1;
}

__kernel void do_and_leave_at_first(__global int *b, int n)
{
    int x = get_global_id(0), k = 0, first = n > 3;
    do {
        if (first)
            break;
        first = 0;
        k++;
    } while (k < 5);
    b[8 * x + k] = 1;
}

typedef struct {
    __global int *p;
    int k;
} Cursor;

__kernel void pointer_in_structure(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    Cursor c = {a, 0};
    for (; c.k < n; c.k += 2) {
        if (c.k == x)
            break;
        c.p = b;
    }
    c.p[x] = 1;
}

__kernel void structure_in_switch(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    Cursor c = {a, 0};
    switch (n) {
    case 0:
        if (x > 3)
            break;
        c.p = b;
        break;
    case 4:
        c.p = b;
    }
    c.p[x] = 1;
}

__kernel void band(__global int *a, int n, int b)
{
    int y = get_global_id(0);
    int first = max(0, y - b), last = min(n - 1, y + b);
    for (int x = first; x <= last; x++)
        a[y * n + x] = 1;
}

__kernel void block_of_each(__global int *a, int n, int c)
{
    int first = get_global_id(0) * c;
    int stop = min(n, first + c);
    for (int i = first; i < stop; i++)
        a[i] = 1;
}

__kernel void up_to_the_greatest(__global int *a, int n, int c)
{
    int x = get_global_id(0);
    for (int i = 0; i < max(n, x - c); i++)
        a[16 * x + i] = 1;
}

__kernel void clamped_guards(__global int *a, int n, int m)
{
    int x = get_global_id(0);
    if (min(x, n) > m)
        a[x] = 1;
    if (max(x, n) < m)
        a[x + 16] = 1;
    if (clamp(x, m, n) == x)
        a[x + 32] = 1;
    if (max(min(x, n - x), 3) > m)
        a[x + 48] = 1;
}

__kernel void either_bound(__global int *a, int n, int c)
{
    int x = get_global_id(0);
    for (int i = 0; i < n || i + c < x; i++)
        a[16 * x + i] = 1;
}

__kernel void until_equal_or_less(__global int *a, int n, int c)
{
    int x = get_global_id(0);
    for (int i = 0; i != n || i < c; i++)
        a[16 * x + i] = 1;
}

__kernel void pointer_behind_pointer(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *to = a, *after = a;
    for (int i = 0; i < n; i++) {
        after[x] = 1;
        after = to;
        to = b;
    }
}

__kernel void read_behind_pointer(__global int *a, __global int *b, __global int *c, int n)
{
    int x = get_global_id(0), sum = 0;
    __global int *from = b, *after = b;
    for (int i = 0; i < n; i++) {
        sum += after[x];
        after = from;
        from = c;
    }
    a[x] = sum;
}

__kernel void until_it_breaks(__global int *a, int n)
{
    int x = get_global_id(0), k = 0;
    bool is_first = true;
    while (true) {
        if (k >= n)
            break;
        a[8 * x + k] = 1;
        ++k;
        is_first = false;
    }
    if (n == 3 && !is_first)
        a[128 + x] = 2;
}

void stage_of_row(int l, int m, int n, __global int *from, __global int *to)
{
    int width = 1 << l, rows = 1 << (m - l - 1);
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < width; k++) {
            int a = from[i * width + k], b = from[i * width + n / 2 + k];
            to[2 * i * width + k] = a + b;
            to[(2 * i + 1) * width + k] = a - b;
        }
}

__kernel void stages_of_rows(__global int *x, __global int *y, int m)
{
    int n = 1 << m;
    x += get_global_id(0) * n;
    y += get_global_id(0) * n;
    for (int l = 0; l < m; l += 2) {
        stage_of_row(l, m, n, x, y);
        if (l + 1 == m) {
            for (int i = 0; i < n; i++)
                x[i] = y[i];
            return;
        }
        stage_of_row(l + 1, m, n, y, x);
    }
}

__kernel void powers_up_to(__global int *a, int n)
{
    int x = get_global_id(0);
    for (int t = 0; t < 8 && ((3 * t) ^ 5) < n; t++)
        a[256 * x + (1 << t)] = 1;
}

__kernel void wider_each_time(__global int *a, int n)
{
    int x = get_global_id(0);
    for (int s = 1; s < n; s *= 3)
        a[s * x + 2 * s] = s;
}

__kernel void unless_it_ends_before(__global int *a)
{
    int x = get_global_id(0);
    for (int t = 0; t < 4 && x + 3 * t >= 2; t++)
        a[16 * x + (1 << t)] = 1;
}
