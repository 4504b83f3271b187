// Indices made of floating-point numbers that are the same for all work-items.

__kernel void halves(__global int *b, int n)
{
    int c = n * 0.5f, i = get_global_id(0);
    if (i < c)
        b[i * c % 64] = 1;
}

__kernel void scaled_count(__global int *b, float x)
{
    int i = get_global_id(0);
    if (i < (int)(x * 16.0f))
        b[i] = 1;
}

__kernel void rounded_up(__global int *b, int n)
{
    int k = (int)ceil((float)n / 8.0f), i = get_global_id(0);
    for (int j = 0; j < k; j++)
        b[i * 8 + j] = 1;
}

__kernel void rounded_up_in_doubles(__global int *b, int n)
{
    int k = ceil(n / 8.0), i = get_global_id(0);
    for (int j = 0; j < k; j++)
        b[i * 8 + j] = 1;
}

__kernel void rounded_down(__global int *b, float x)
{
    int i = get_global_id(0);
    b[i + (int)floor(x)] = 1;
    b[i + 32 + (int)rint(x)] = 1;
    b[i + 64 + (int)round(x)] = 1;
    b[i + 96 + (int)trunc(x)] = 1;
}

__kernel void side_of_square(__global int *b, int n)
{
    int w = (int)sqrt((float)n), i = get_global_id(0);
    b[i * w] = w;
}

__kernel void levels(__global int *b, int n)
{
    int w = (int)log2((float)n), i = get_global_id(0);
    int v = (int)(log2((float)n) + 0.5f);
    b[i * 4 + w % 4] = 1;
    b[64 + i * v] = 1;
}

__kernel void radix(__global int *b, int r, int i)
{
    int g = get_global_id(0), w = (int)pow((float)r, (float)i), v = (int)(pow((float)r, (float)i) + 0.5f);
    b[g * 8 + w % 8] = 1;
    b[128 + g * v % 128] = 1;
}

__kernel void radix_of_counter(__global int *b, int r)
{
    int g = get_global_id(0);
    for (int i = 0; i < 3; i++)
        b[g * 8 + (int)(pow((float)r, (float)i) + 0.5f) % 8] = 1;
}

__kernel void bits_of_it(__global int *b, float x, int n)
{
    int i = get_global_id(0);
    b[i + (as_int(x) & 7)] = 1;
    b[32 + i + (int)(as_float(n))] = 1;
    b[64 + i + (as_int2((float2)(x, 1.0f)).x & 7)] = 1;
}

__kernel void by_compound(__global int *b, float x, int n)
{
    int i = get_global_id(0), m = n;
    float y = x;
    y += n;
    y *= 2;
    y -= 0.25f;
    m *= 1.5f;
    b[i + (int)y] = m;
    b[64 + i + m] = 1;
}

__kernel void changed_by_loop(__global int *b, float x)
{
    int i = get_global_id(0);
    float y = x;
    for (int k = 0; k < 3; k++) {
        b[i + (int)y] = 1;
        y += 1.0f;
    }
    b[64 + i + (int)y] = 1;
}

__kernel void of_ids(__global int *b, float x)
{
    int i = get_global_id(0);
    float y = i < 8 ? x : 2.0f;
    b[i + (int)y] = 1;
    b[64 + (int)(i * x)] = 1;
}

__kernel void chosen_by_scalar(__global int *b, float x, int n)
{
    int i = get_global_id(0);
    float y = x;
    if (n > 3)
        y = 1.0f;
    b[i + (int)y] = 1;
}

float twice(float x)
{
    return x * 2;
}

__kernel void by_helper(__global int *b, float x)
{
    int i = get_global_id(0);
    b[i + (int)twice(x)] = 1;
}

__kernel void by_address(__global int *b, float x)
{
    int i = get_global_id(0);
    float y = x, *p = &y;
    *p = 3.5f;
    b[i + (int)y] = 1;
}

struct Box {
    float width;
    int count;
};

__kernel void by_structure(__global int *b, struct Box box)
{
    int i = get_global_id(0);
    struct Box own = {box.width * 2.0f, box.count};
    own.count = own.width;
    if (i < own.count)
        b[i + (int)box.width] = 1;
}

__kernel void converted(__global int *b, float x)
{
    int i = get_global_id(0);
    float2 v = (float2)(x, 2.5f);
    int2 w = convert_int2(v);
    b[i + convert_int(x)] = 1;
    b[32 + i + (uchar)x] = 1;
    b[64 + i + w.x + w.y] = 1;
}

__kernel void converted_otherwise(__global int *b, float x)
{
    int i = get_global_id(0);
    float2 v = (float2)(x, 2.5f);
    int2 w = convert_int2_rtp(v);
    b[i + convert_int_rte(x)] = 1;
    b[64 + i + convert_uchar_sat(x)] = 1;
    b[128 + i + (bool)x] = 1;
    b[200 + i + w.x] = 1;
}

__kernel void of_constants(__global int *b)
{
    int i = get_global_id(0), k = (int)(2.5f * 4), m = (int)(1e1f / 2.0f);
    b[i * k] = M_PI_F > 3.0f;
    b[200 + i * 8 + m] = 1;
    b[400 + i + (int)(0x1.8p1f + fmin(2.5f, 7.0f) + fmax(0.25f, -1.0f) - fabs(-1.0f) + fmod(7.5f, 2.0f))] = 1;
}

__kernel void of_sizes(__global int *b)
{
    int i = get_global_id(0), half_ = (int)(get_global_size(0) * 0.5f);
    if (i < half_)
        b[i + half_] = 1;
}

__kernel void out_of_range(__global int *b, float x)
{
    int i = get_global_id(0);
    uchar k = (uchar)(int)(x * 200.0f);
    if (x < 1e6f)
        b[i + k] = 1;
}

__kernel void fused(__global int *b, float x, float y, float z)
{
    int i = get_global_id(0);
    b[i + (int)(x * y + z)] = 1;
}
