// Private arrays and variables whose address is given away, in the indices of what is written.

void fill_row(int x, int *row)
{
    for (int k = 0; k < 5; k++)
        row[k] = x + 16 * k;
}

void either(int x, int *to)
{
    if (x < 3) {
        *to = 16;
        return;
    }
    *to = 32;
}

void perhaps(int x, int *to)
{
    if (x < 3)
        return;
    *to = 32;
}

void write_long(int *row)
{
    *(long *)row = (long)24 << 32;
}

void swap(int *one, int *other)
{
    int kept = *one;
    *one = *other;
    *other = kept;
}

int *second(int *row)
{
    return row + 1;
}

__kernel void neighbours(__global int *a)
{
    int x = get_global_id(0);
    int to[5];
    fill_row(x, to);
    for (int k = 0; k < 5; k++)
        a[to[k]] = 1;
}

__kernel void offsets(__global int *a)
{
    int x = get_global_id(0);
    const int step[4] = {0, 16, 48};
    for (int k = 0; k < 4; k++)
        a[x + step[k]] = 1;
}

__kernel void two_dimensions(__global int *a, int n)
{
    int x = get_global_id(0);
    short at[2][3] = {{0, 16}, {32, 48, 64}};
    at[1][1] = n;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            a[x + at[i][k]] = 1;
}

__kernel void item_by_data(__global int *a, __global const int *b)
{
    int x = get_global_id(0);
    int at[2] = {0, 16};
    at[b[x] & 1] = 32;
    a[x + at[0]] = 1;
}

__kernel void item_by_scalar(__global int *a, int n)
{
    int x = get_global_id(0);
    int at[3] = {0, 16, 32};
    at[n] = 48;
    a[x + at[1]] = 1;
}

__kernel void items_by_branch(__global int *a, int n)
{
    int x = get_global_id(0);
    int at[2] = {0, 16};
    if (x < n)
        at[1] = 32;
    else
        at[0] = 48;
    a[x + at[0]] = 1;
    a[x + at[1]] = 1;
}

__kernel void through_pointers(__global int *a)
{
    int x = get_global_id(0);
    int at[3] = {0, 16, 32};
    int *to = at;
    to[1] = 48;
    to++;
    *++to = 64;
    a[x + at[1]] = 1;
    a[x + *to] = 1;
    swap(&at[0], &at[2]);
    a[x + at[0] + 16] = 1;
    *second(at) = 0;
    a[x + at[1]] = 1;
}

__kernel void one_of_two(__global int *a, int n)
{
    int x = get_global_id(0);
    int one = 0, other = 16;
    int *to = x < n ? &one : &other;
    *to = 32;
    a[x + one] = 1;
    a[x + other] = 1;
}

__kernel void returned_early(__global int *a)
{
    int x = get_global_id(0);
    int to = 0, also = 48;
    either(x, &to);
    perhaps(x, &also);
    a[x + to] = 1;
    a[x + also] = 1;
}

__kernel void other_types(__global int *a)
{
    int x = get_global_id(0);
    int at[2] = {0, 16};
    write_long(at);
    a[x + at[1]] = 1;
    uchar bytes[4] = {1, 2, 3, 4};
    bytes[1] = 48;
    a[x + bytes[1]] = 1;
}

__kernel void changed_in_loop(__global int *a, int n)
{
    int x = get_global_id(0);
    int at[2] = {0, 16}, one = 0;
    for (int i = 0; i < n; i++) {
        at[1] = 16 + i;
        swap(&at[0], &one);
        one = 2;
    }
    a[x + at[0]] = 1;
    a[x + at[1]] = 1;
    a[x + one + 48] = 1;
}

__kernel void pointer_in_loop(__global int *a, int n)
{
    int x = get_global_id(0);
    int at[4] = {0, 0, 0, 0};
    int *to = at;
    for (int i = 0; i < n; i++)
        *to++ = 16;
    a[x + at[0]] = 1;
    a[x + at[3] + 32] = 1;
}

__kernel void by_builtins(__global int *a, __global const float *b)
{
    int x = get_global_id(0);
    int exponent = 0, at[4] = {0, 16, 32, 48};
    float part = frexp(b[x], &exponent);
    vstore2((int2)(8, 9), 1, at);
    a[x + at[1]] = 1;
    a[x + at[2]] = 1;
    a[x + (exponent & 15) + (part > 2.0f)] = 1;
}

__kernel void swapped_each_time(__global int *a)
{
    int x = get_global_id(0);
    int at[2] = {0, 16};
    for (int i = 0; i < 3; i++) {
        a[x + at[0] + 16 * i] = 1;
        swap(&at[0], &at[1]);
    }
}

__kernel void compound(__global int *a, int n)
{
    int x = get_global_id(0);
    int at[2] = {0, 16};
    at[0] += n;
    at[1]++;
    int k = 0;
    at[k++] += 16;
    a[x + at[0]] = 1;
    a[x + at[k]] = 1;
}

__kernel void turns(__global int *a, int n)
{
    int x = get_global_id(0);
    int cur[2] = {0, 0}, nxt[2] = {0, 0};
    int *one = cur, *other = nxt;
    for (int t = 0; t < n; t++) {
        for (int j = 0; j < 2; j++)
            other[j] = one[j] + 1;
        int *kept = one;
        one = other;
        other = kept;
    }
    a[x * 8 + cur[0]] = 1;
}

__kernel void moved_pointer(__global int *a, int n)
{
    int x = get_global_id(0), one = 0, other = 0;
    int *to = &one;
    for (int i = 0; i < n; i++) {
        a[x * 8 + other] = 1;
        *to = 7;
        to = &other;
    }
    a[x * 8 + other] = 1;
}

__kernel void moved_twice(__global int *a, int n)
{
    int x = get_global_id(0), one = 0, other = 0;
    int *to = &other, *after = &other;
    for (int i = 0; i < n; i++) {
        a[x * 8 + one] = 1;
        *after = 5;
        after = to;
        to = &one;
    }
}

typedef struct {
    int *to;
    int *after;
} Two;

__kernel void moved_in_structure(__global int *a, int n)
{
    int x = get_global_id(0), one = 0, other = 0;
    Two two = {&one, &other};
    for (int i = 0; i < n; i++) {
        a[x * 8 + other] = 1;
        *two.to = 3;
        two.to = two.after;
    }
}

__kernel void text_in_braces(__global int *a)
{
    char text[4] = {"abc"};
    a[text[1] % 8 + 8 * get_global_id(0)] = 1;
}

__kernel void designated(__global int *a)
{
    int at[4] = {[2] = 5}, old[4] = {[2] 5};
    a[at[2] + 8 * get_global_id(0)] = 1;
    a[old[2] + 8 * get_global_id(0) + 1] = 1;
}

void by_number(ulong where)
{
    *(int *)where = 3;
}

__kernel void address_as_number(__global int *a, int n)
{
    int x = get_global_id(0), to = 0;
    ulong where = (ulong)&to;
    for (int i = 0; i < n; i++) {
        a[x * 8 + to] = 1;
        by_number(where);
    }
}

typedef struct {
    int first[1];
    int n;
} Whole;

void by_member(int *first)
{
    ((Whole *)first)->n = 5;
}

__kernel void whole_by_member(__global int *a)
{
    Whole whole;
    whole.n = 0;
    by_member(whole.first);
    a[8 * get_global_id(0) + whole.n] = 1;
}

#define WIDE 3
#define HIGH (2 * 2)

__kernel void rows_by_pointer(__global int *a, int n)
{
    int i = get_global_id(0);
    if (i >= n)
        return;
    __global int (*u)[WIDE + 2] = (__global int (*)[WIDE + 2])a;
    for (int m = 1; m < WIDE; m++)
        u[i][m] = u[i][m - 1];
}

__kernel void planes_by_pointer(__global int *a, __global const int *b)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    global int (*u)[HIGH][WIDE] = (global int (*)[HIGH][WIDE])a;
    global const int (*w)[HIGH + 1][WIDE];
    w = (global const int (*)[HIGH + 1][WIDE])b;
    if (z > 0)
        u[z][y][x] = w[z - 1][y + 1][x] + w[z][y][x];
}

typedef int Triple[3];

void clear(__global int *row)
{
    row[1] = 0;
}

__kernel void rows_in_other_words(__global int *a, int n)
{
    int i = get_global_id(0);
    global Triple *u = (global Triple *)&a[n];
    (*(u + 2 * i))[0] = 1;
    *(u[2 * i] + 2) = 2;
    clear(u[2 * i + 1]);
    (u + 2 * i)[1][2] = 3;
}

__kernel void own_rows_by_pointer(__global int *a)
{
    int x = get_global_id(0);
    int at[2][3] = {{0, 1, 2}, {3, 4, 5}};
    int (*row)[3] = at;
    a[8 * x + row[1][2]] = 1;
    a[8 * x + *row[0]] = 1;
}
