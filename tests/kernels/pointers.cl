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

__kernel void moved_choice(__global int *a, __global int *b, int n)
{
    __global int *p = a + 4 * get_global_id(0);
    if (n & 1)
        p = b + 4 * get_global_id(0);
    for (int i = 0; i < n; i++)
        *p++ = 1;
    p[0] = 2;
}

__global int *first_of(__global int *a, __global int *b, __global int *c, int n)
{
    if (n == 0)
        return a;
    if (n == 1)
        return b;
    return c;
}

__kernel void one_of_three(__global int *a, __global int *b, __global int *c, int n)
{
    __global int *p = first_of(a, b, c, n);
    p[get_global_id(0)] = 1;
    p = n > 3 ? p : a;
    p[get_global_id(0) + 16] = p[get_global_id(0)];
}

__kernel void one_by_item(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *p = x < n ? a : b;
    p[x] = 1;
    __global int *q = x & 1 ? p : 0;
    if (x & 1)
        q[16] = 1;
}

__kernel void one_by_data(__global int *a, __global int *b, __global const int *c)
{
    int x = get_global_id(0);
    __global int *p = c[x] & 1 ? a : b;
    p[x] = 1;
    __global int *q = a;
    for (int i = 0; i < 3; i++) {
        q[x + 16] = 1;
        if (c[i] & 1)
            q = b;
    }
    q[x + 32] = 1;
}

__kernel void one_in_loop(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *q = a;
    for (int i = 0; i < n; i++) {
        __global int *p = i & 1 ? a : b;
        p[x] = i;
        p = p + 16;
        p[x] = i;
        q = p;
    }
    q[x + 16] = 1;
}

__kernel void turned_about(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *to = a, *from = b;
    for (int i = 0; i < n; i++) {
        to[x] = from[x] + 1;
        __global int *kept = to;
        to = from;
        from = kept;
    }
    if (n & 1)
        from[x + 16] = 1;
}

typedef struct {
    __global int *p;
    int s;
} View;

void put(View *v, int i)
{
    v->p[i * v->s] = 1;
}

void narrow(View *v, int by)
{
    v->p += by;
    v->s = 1;
}

__kernel void by_view(__global int *a, int n)
{
    int i = get_global_id(0);
    View v = {a, n}, w;
    put(&v, i);
    w.p = v.p + 64;
    w.s = 1;
    put(&w, i);
    for (int k = 0; k < 3; k++)
        put(&w, i + 16 * k);
    narrow(&v, 100);
    put(&v, i);
    w = v;
    narrow(&v, 16);
    put(&w, 20);
    View *u = &w;
    *u = v;
    (*u).p[i] = 3;
}

__kernel void view_in_loop(__global int *a, __global const int *b, int n)
{
    View v = {a + 8 * get_global_id(0), 1};
    for (int k = 0; k < n; k++) {
        put(&v, 0);
        narrow(&v, 1);
    }
    v.p = a + 8 * get_global_id(0) + 6;
    for (int k = 0; k < 2; k++) {
        if (b[k] == 5)
            break;
        put(&v, k);
    }
    put(&v, 1);
}

__kernel void view_by_data(__global int *a, __global int *b, __global const int *c)
{
    int x = get_global_id(0);
    View v = {a, 1}, w = {b, 1};
    if (c[x] & 1)
        v.p = b;
    put(&v, x);
    View *u = c[x] & 2 ? &v : &w;
    u->p = a + 16;
    put(&v, x);
    put(&w, x);
}

void by_number_of(View *v)
{
    *(int *)&v->s = 2;
    ((int *)v)[2] += 1;
    *(ulong *)v += 16;
}

__kernel void view_by_bytes(__global int *a)
{
    View v = {a, 1};
    put(&v, get_global_id(0));
    by_number_of(&v);
    v.p = a;
    put(&v, get_global_id(0));
}

typedef struct {
    View inner;
    int at[2];
    long far;
} Nested;

void set(Nested *n, int i)
{
    n->inner.s = 2;
    n->at[1] = 16;
    n->far += 32;
    put(&n->inner, i);
}

__kernel void nested_view(__global int *a)
{
    Nested n = {{a, 1}, {1, 2}, 3};
    set(&n, get_global_id(0));
    View v = n.inner;
    v.p[get_global_id(0) + n.far] = 2;
    n.inner.p[n.at[1] + 64] = 3;
}

typedef union {
    int i[2];
    long n;
} Either;

typedef struct {
    Either one;
    int s;
} Mixed;

void change(Mixed *m)
{
    m->one.i[0] = 16;
    m->s = 5;
}

__kernel void view_with_union(__global int *a)
{
    Mixed m;
    m.one.n = 3;
    m.s = 2;
    change(&m);
    a[get_global_id(0) * 8 + m.s] = 1;
    a[get_global_id(0) * 8 + (m.one.n & 3)] = 1;
}

__kernel void several(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *p[2] = {a, b};
    p[0][x] = 1;
    p[1] += 16;
    p[1][x] = 2;
    for (int i = 0; i < 2; i++)
        p[i][x + 32] = p[1 - i][x];
    p[0] = p[1];
    *p[0] = 3;
    __global int **q = p;
    q[1] = a + n;
    *(p[1] + x) = 4;
}

__kernel void several_by_index(__global int *a, __global int *b, __global const int *c, int n)
{
    int x = get_global_id(0);
    __global int *p[3] = {a, b};
    p[n & 1][x] = 1;
    p[c[x] & 1] = b + 16;
    p[0][x] = 1;
}

__kernel void several_in_loop(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    __global int *p[2][1];
    p[0][0] = a;
    p[1][0] = b;
    for (int i = 0; i < n; i++) {
        p[i & 1][0][x] = 1;
        __global int *kept = p[0][0];
        p[0][0] = p[1][0];
        p[1][0] = kept + 16;
    }
    p[0][0][x] = 2;
}

__kernel void several_ends(__global int *a, int n)
{
    int x = get_global_id(0);
    __global int *ends[2] = {a + 8 * x, a + 8 * x + n};
    for (; ends[0] < ends[1]; ends[0]++)
        *ends[0] = 1;
}

void advance_both(__global int **one, View *other)
{
    ++*one;
    other->p += 2;
}

__kernel void pointers_to_pointers(__global int *a, int n)
{
    __global int *p = a + 4 * get_global_id(0), *q[2] = {p + 64, p + 65};
    View v = {p + 128, 1};
    advance_both(&p, &v);
    *p = 1;
    advance_both(&q[1], &v);
    *q[1] = 2;
    *q[0] = 3;
    for (int i = 0; i < n; i++)
        advance_both(&p, &v);
    *p = 4;
    *v.p = 5;
}

typedef struct {
    int before;
    View first, second;
    int2 size;
} Views;

void set_views(Views *views, __global int *a)
{
    views->first.p = a;
    views->second = views->first;
    views->second.p += 32;
    views->size.y = 2;
    put(&views->first, views->size.x);
}

__kernel void views_in_views(__global int *a)
{
    Views views;
    views.first.s = 1;
    views.size = (int2)(get_global_id(0), 1);
    set_views(&views, a);
    views.second.p[views.size.x] = 2;
    put(&views.second, views.size.x + 16);
}

__kernel void parts_of_views(__global int *a, __global int *b, int n)
{
    int x = get_global_id(0);
    Views views = {0, {a, 1}, {b, 1}, (int2)(1, 2)};
    int *s = &views.second.s, *far = (int *)&views.first;
    __global int **p = &views.first.p;
    *s = 2;
    *p += 32;
    put(&views.second, x);
    put(&views.first, x);
    for (int i = 0; i < n; i++)
        *s += 1;
    put(&views.second, 1);
    *(far + 2) = 2;
    put(&views.first, x);
}

__kernel void half_a_pointer(__global int *a, __global const int *b)
{
    View v = {a, 1};
    int *upper = (int *)&v + 1;
    *upper += b[0] & 0;
    put(&v, get_global_id(0));
}

typedef struct {
    int offset;
    int sizes[3];
    struct {
        short steps[2];
        int last;
    } inner;
} Layout;

int place(Layout layout, int x)
{
    return layout.offset + x * layout.sizes[0] + layout.inner.steps[1];
}

__kernel void arrays_in_arguments(__global int *a, Layout layout)
{
    int x = get_global_id(0);
    if (x >= layout.sizes[2])
        return;
    for (int k = 0; k < layout.sizes[1]; k++)
        a[place(layout, x) + k] = 1;
    for (int k = 0; k < 3; k++)
        a[256 + 16 * x + layout.sizes[k]] = 1;
}

__kernel void arrays_in_structures(__global int *a, Layout given, int n)
{
    int x = get_global_id(0);
    Layout own = given, set;
    own.sizes[1] = 5;
    own.inner.steps[0] = 1;
    set.sizes[n > 4 ? 0 : 1] = 3;
    set.offset = 2;
    a[16 * x + own.sizes[1] + own.inner.steps[0] + own.offset] = 1;
    a[256 + 16 * x + given.sizes[1] + set.offset] = 1;
}

void changed(Layout *layout, int *item, int n)
{
    layout->sizes[1] = n;
    *item += 2;
}

__kernel void arrays_in_changed_structures(__global int *a, Layout layout, int n)
{
    int x = get_global_id(0);
    for (int i = 0; i < n; i++) {
        a[16 * x + layout.sizes[0]] = 1;
        layout.sizes[0] += 1;
    }
    changed(&layout, &layout.sizes[2], 4);
    int *behind = layout.sizes;
    behind[-1] = 7;
    a[256 + 16 * x + layout.sizes[1] + layout.sizes[2] + layout.offset] = 1;
}

typedef struct {
    int items[2];
    int behind;
    int last;
} Items;

void put_bytes(int *to)
{
    *(uchar16 *)to = (uchar16)(9);
}

__kernel void stored_over_an_array(__global int *a)
{
    int x = get_global_id(0);
    Items one = {{1, 2}, 3, 4}, two = {{1, 2}, 3, 4}, three = {{1, 2}, 3, 4};
    *(uchar16 *)one.items = (uchar16)(9);
    a[32 * x + (one.behind & 15)] = 1;
    put_bytes(two.items);
    a[512 + 32 * x + (two.last & 15)] = 1;
    ((uchar *)three.items)[8] = 7;
    a[1024 + 32 * x + three.behind] = 1;
}
