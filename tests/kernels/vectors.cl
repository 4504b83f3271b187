__kernel void any_beyond(__global int *a, int2 size)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    if (any(at >= size))
        return;
    a[at.y * 8 + at.x] = 1;
}

__kernel void all_within(__global int *a, int2 size)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1)) - 1;
    if (all(at >= 0 && at < size))
        a[at.y * 8 + at.x] = 1;
}

__kernel void not_all_within(__global int *a, uint n)
{
    uint2 at = (uint2)(get_global_id(0), get_global_id(1));
    if (!all(at < n) || any(!(at != 2u)))
        return;
    a[at.y * 8 + at.x] = 1;
}

__kernel void components_of_conditions(__global int *a, int n)
{
    short4 at = (short4)(get_global_id(0), get_global_id(1), 3, 4);
    short4 less = at < (short4)((short)n, 5, 9, 2);
    char2 either = (char2)((char)get_global_id(0), 0) == (char)1 || (char2)(0, (char)(n - 4));
    if (less.x && less.y)
        a[at.y * 8 + at.x - less.z + less.w] = 1;
    a[40 + either.x + either.y] = 1;
}

__kernel void chosen_by_components(__global int *a, int n)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    int2 one = at >= (int2)(n, 4) ? (int2)(0) : at, other = select(at, (int2)(7, 0), at < n);
    a[one.y * 8 + one.x] = 1;
    a[other.y * 8 + other.x] = 1;
}

__kernel void high_halves(__global int *a, uint n)
{
    uint x = get_global_id(0);
    uint by = mul_hi(x, n), by_three = mad_hi(x * 5, 0x55555556u, x);
    a[4 * x + by] = 1;
    a[128 + by_three] = 1;
    a[255 - mul_hi((int)x - 8, 1 << 30)] = 1;
}

__kernel void leading_zeros(__global int *a, int n)
{
    int x = get_global_id(0);
    a[x * (32 - clz(n))] = 1;
}

__kernel void nearest(__global int *a, int n)
{
    int x = get_global_id(0);
    a[convert_uchar_sat(x * n)] = 1;
    a[convert_char_sat((uint)x * 60) + convert_ushort_sat(x - 4)] = 1;
    uchar2 both = convert_uchar2_sat((int2)(x - 3, 4 * x));
    a[both.x + both.y] = 1;
}
