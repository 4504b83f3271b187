
// Part 2: mathematical, integer, common, geometric and relational functions.
// Source: OpenCL C 3.0 specification, sections 6.15.2 to 6.15.6, accuracy: section 7.4.

// Each function is defined for scalars, then for vectors element by element.
#define _CL_EACH1(name) \
  template<class T, int N> _CL auto name(_cl_vec<T, N> a) { \
    _cl_vec<decltype(name(a.v[0])), N> r; \
    _CL_EACH(N) r.v[i] = name(a.v[i]); \
    return r; \
  }
#define _CL_EACH2(name) \
  template<class T, class U, int N> _CL auto name(_cl_vec<T, N> a, _cl_vec<U, N> b) { \
    _cl_vec<decltype(name(a.v[0], b.v[0])), N> r; \
    _CL_EACH(N) r.v[i] = name(a.v[i], b.v[i]); \
    return r; \
  }
#define _CL_EACH3(name) \
  template<class T, class U, class W, int N> _CL auto name(_cl_vec<T, N> a, _cl_vec<U, N> b, _cl_vec<W, N> c) { \
    _cl_vec<decltype(name(a.v[0], b.v[0], c.v[0])), N> r; \
    _CL_EACH(N) r.v[i] = name(a.v[i], b.v[i], c.v[i]); \
    return r; \
  }
#define _CL_LAST1(name) \
  template<class T, _cl_scalar U, int N> _CL auto name(_cl_vec<T, N> a, U b) { \
    _cl_vec<decltype(name(a.v[0], b)), N> r; \
    _CL_EACH(N) r.v[i] = name(a.v[i], b); \
    return r; \
  }
#define _CL_LAST2(name) \
  template<class T, int N> _CL auto name(_cl_vec<T, N> a, T b, T c) { \
    _CL_EACH(N) a.v[i] = name(a.v[i], b, c); \
    return a; \
  }
#define _CL_MATH1(name, f, d) \
  _CL float _cl_##name(float a) { return f(a); } \
  _CL double _cl_##name(double a) { return d(a); } \
  _CL _cl_half _cl_##name(_cl_half a) { return _cl_half((float)f((float)a)); } \
  _CL_EACH1(_cl_##name)
#define _CL_MATH2(name, f, d) \
  _CL float _cl_##name(float a, float b) { return f(a, b); } \
  _CL double _cl_##name(double a, double b) { return d(a, b); } \
  _CL _cl_half _cl_##name(_cl_half a, _cl_half b) { return _cl_half((float)f((float)a, (float)b)); } \
  _CL_EACH2(_cl_##name)

// Functions of halves by those of floats.
#define _CL_HALF1(name) _CL _cl_half name(_cl_half a) { return _cl_half(name((float)a)); }
#define _CL_HALF2(name) _CL _cl_half name(_cl_half a, _cl_half b) { return _cl_half(name((float)a, (float)b)); }
#define _CL_HALF3(name) \
  _CL _cl_half name(_cl_half a, _cl_half b, _cl_half c) { return _cl_half(name((float)a, (float)b, (float)c)); }
#define _CL_HALF_OUT(name) \
  _CL _cl_half name(_cl_half a, _cl_half *p) { \
    float b; \
    a = _cl_half(name((float)a, &b)); \
    *p = _cl_half(b); \
    return a; \
  }
#define _CL_HALF_INT(name) _CL _cl_half name(_cl_half a, int *p) { return _cl_half(name((float)a, p)); }

#define _CL_PI 3.14159265358979323846
#define _CL_1_PI 0.31830988618379067154
_CL float _cl_over_pi(float a) { return a * (float)_CL_1_PI; }
_CL double _cl_over_pi(double a) { return a * _CL_1_PI; }
_CL float _cl_tan_of_pi(float a) { float s, c; sincospif(a, &s, &c); return s / c; }
_CL double _cl_tan_of_pi(double a) { double s, c; sincospi(a, &s, &c); return s / c; }
_CL_MATH1(acos, acosf, acos) _CL_MATH1(acosh, acoshf, acosh)
_CL_MATH1(asin, asinf, asin) _CL_MATH1(asinh, asinhf, asinh)
_CL_MATH1(atan, atanf, atan) _CL_MATH1(atanh, atanhf, atanh)
#define _CL_ACOSPI(a) _cl_over_pi(_cl_acos(a))
#define _CL_ASINPI(a) _cl_over_pi(_cl_asin(a))
#define _CL_ATANPI(a) _cl_over_pi(_cl_atan(a))
_CL_MATH1(acospi, _CL_ACOSPI, _CL_ACOSPI) _CL_MATH1(asinpi, _CL_ASINPI, _CL_ASINPI)
_CL_MATH1(atanpi, _CL_ATANPI, _CL_ATANPI)
_CL_MATH1(cbrt, cbrtf, cbrt) _CL_MATH1(ceil, ceilf, ceil)
_CL_MATH1(cos, cosf, cos) _CL_MATH1(cosh, coshf, cosh) _CL_MATH1(cospi, cospif, cospi)
_CL_MATH1(erf, erff, erf) _CL_MATH1(erfc, erfcf, erfc)
_CL_MATH1(exp, expf, exp) _CL_MATH1(exp2, exp2f, exp2) _CL_MATH1(exp10, exp10f, exp10)
_CL_MATH1(expm1, expm1f, expm1) _CL_MATH1(fabs, fabsf, fabs) _CL_MATH1(floor, floorf, floor)
_CL_MATH1(lgamma, lgammaf, lgamma) _CL_MATH1(log, logf, log) _CL_MATH1(log2, log2f, log2)
_CL_MATH1(log10, log10f, log10) _CL_MATH1(log1p, log1pf, log1p) _CL_MATH1(logb, logbf, logb)
_CL_MATH1(rint, rintf, rint) _CL_MATH1(round, roundf, round) _CL_MATH1(rsqrt, rsqrtf, rsqrt)
_CL_MATH1(sin, sinf, sin) _CL_MATH1(sinh, sinhf, sinh) _CL_MATH1(sinpi, sinpif, sinpi)
_CL_MATH1(sqrt, sqrtf, sqrt) _CL_MATH1(tan, tanf, tan) _CL_MATH1(tanh, tanhf, tanh)
_CL_MATH1(tanpi, _cl_tan_of_pi, _cl_tan_of_pi)
_CL_MATH1(tgamma, tgammaf, tgamma) _CL_MATH1(trunc, truncf, trunc)

#define _CL_ATAN2PI(a, b) _cl_over_pi(_cl_atan2(a, b))
_CL_MATH2(atan2, atan2f, atan2) _CL_MATH2(atan2pi, _CL_ATAN2PI, _CL_ATAN2PI)
_CL_MATH2(copysign, copysignf, copysign) _CL_MATH2(fdim, fdimf, fdim)
_CL_MATH2(fmax, fmaxf, fmax) _CL_MATH2(fmin, fminf, fmin) _CL_MATH2(fmod, fmodf, fmod)
_CL_MATH2(hypot, hypotf, hypot) _CL_MATH2(pow, powf, pow)
_CL_MATH2(remainder, remainderf, remainder)
_CL_LAST1(_cl_fmax) _CL_LAST1(_cl_fmin)
// Source: OpenCL C 3.0 specification, section 7.5.1: a logarithm of the first is what powr is defined by.
template<class T> _CL bool _cl_has_no_powr(T a, T b) {
  return !(a >= (T)0) || !(b == b) || (b == (T)0 && (a == (T)0 || isinf(a))) || (a == (T)1 && isinf(b));
}
_CL float _cl_powr_of(float a, float b) {
  return _cl_has_no_powr(a, b) ? __int_as_float(0x7fc00000) : powf(fabsf(a), b);
}
_CL double _cl_powr_of(double a, double b) {
  return _cl_has_no_powr(a, b) ? __longlong_as_double(0x7ff8000000000000l) : pow(fabs(a), b);
}
_CL_MATH2(powr, _cl_powr_of, _cl_powr_of)
#define _CL_MAXMAG(a, b) (_cl_fabs(a) > _cl_fabs(b) ? (a) : _cl_fabs(b) > _cl_fabs(a) ? (b) : _cl_fmax(a, b))
#define _CL_MINMAG(a, b) (_cl_fabs(a) < _cl_fabs(b) ? (a) : _cl_fabs(b) < _cl_fabs(a) ? (b) : _cl_fmin(a, b))
_CL_MATH2(maxmag, _CL_MAXMAG, _CL_MAXMAG) _CL_MATH2(minmag, _CL_MINMAG, _CL_MINMAG)
_CL float _cl_nextafter(float a, float b) { return nextafterf(a, b); }
_CL double _cl_nextafter(double a, double b) { return nextafter(a, b); }
_CL _cl_half _cl_nextafter(_cl_half a, _cl_half b) {
  float x = (float)a, y = (float)b;
  if (!(x == x)) return a;
  if (!(y == y) || x == y) return b;
  if (!(a.bits & 0x7fff)) { a.bits = (b.bits & 0x8000) | 1; return a; }
  a.bits += (x < y) == !(a.bits & 0x8000) ? 1 : -1;
  return a;
}
_CL_EACH2(_cl_nextafter)

_CL float _cl_fma(float a, float b, float c) { return fmaf(a, b, c); }
_CL double _cl_fma(double a, double b, double c) { return fma(a, b, c); }
_CL _cl_half _cl_fma(_cl_half a, _cl_half b, _cl_half c) {
  _cl_half r;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
  return r;
}
_CL_EACH3(_cl_fma)
template<class T> _CL T _cl_mad(T a, T b, T c) { return _cl_fma(a, b, c); }

#define _CL_WITH_INT(name, f, d) \
  _CL float _cl_##name(float a, int n) { return f(a, n); } \
  _CL double _cl_##name(double a, int n) { return d(a, n); } \
  _CL _cl_half _cl_##name(_cl_half a, int n) { return _cl_half((float)f((float)a, n)); } \
  _CL_EACH2(_cl_##name)
_CL float _cl_root(float a, int n) {
  if (n == 0 || (a < 0 && !(n & 1))) return __int_as_float(0x7fc00000);
  float r = (float)pow((double)fabsf(a), 1.0 / n);
  return n & 1 ? copysignf(r, a) : r;
}
_CL double _cl_root(double a, int n) {
  if (n == 0 || (a < 0 && !(n & 1))) return __longlong_as_double(0x7ff8000000000000l);
  double r = n == 1 ? a : n == 2 ? sqrt(a) : n == 3 ? cbrt(a) : pow(fabs(a), 1.0 / n);
  return n & 1 ? copysign(r, a) : r;
}
// An exponent that no float has exactly must keep its parity.
_CL float _cl_power(float a, int n) {
  return n >= -16777216 && n <= 16777216 ? powf(a, (float)n) : (float)pow((double)a, (double)n);
}
_CL double _cl_power(double a, int n) { return pow(a, (double)n); }
_CL_WITH_INT(ldexp, ldexpf, ldexp) _CL_LAST1(_cl_ldexp)
_CL_WITH_INT(pown, _cl_power, _cl_power) _CL_WITH_INT(rootn, _cl_root, _cl_root)
_CL int _cl_ilogb(float a) { return a == 0.0f ? (-2147483647 - 1) : isnan(a) ? 2147483647 : ilogbf(a); }
_CL int _cl_ilogb(double a) { return a == 0.0 ? (-2147483647 - 1) : isnan(a) ? 2147483647 : ilogb(a); }
_CL int _cl_ilogb(_cl_half a) { return _cl_ilogb((float)a); }
_CL_EACH1(_cl_ilogb)
_CL float _cl_nan(unsigned n) { return __uint_as_float(0x7fc00000u | (n & 0x3fffffu)); }
_CL double _cl_nan(unsigned long n) { return __longlong_as_double(0x7ff8000000000000l | (n & 0x7fffffffffffful)); }
_CL _cl_half _cl_nan(unsigned short n) { return __builtin_bit_cast(_cl_half, (unsigned short)(0x7e00 | (n & 0x1ff))); }
_CL_EACH1(_cl_nan)

// Functions with a second result.
#define _CL_OUT(name, P) \
  template<class T, class U, int N> _CL _cl_vec<T, N> name(_cl_vec<T, N> a, _cl_vec<U, N> *p) { \
    _CL_EACH(N) { U u; a.v[i] = name(a.v[i], &u); p->v[i] = u; } \
    return a; \
  }
_CL float _cl_fract(float a, float *p) {
  float f = floorf(a);
  *p = f;
  if (isinf(a)) return copysignf(0.0f, a);
  return isnan(a) ? a : fminf(a - f, 0x1.fffffep-1f);
}
_CL double _cl_fract(double a, double *p) {
  double f = floor(a);
  *p = f;
  if (isinf(a)) return copysign(0.0, a);
  return isnan(a) ? a : fmin(a - f, 0x1.fffffffffffffp-1);
}
_CL float _cl_frexp(float a, int *p) { return frexpf(a, p); }
_CL double _cl_frexp(double a, int *p) { return frexp(a, p); }
_CL float _cl_modf(float a, float *p) { return modff(a, p); }
_CL double _cl_modf(double a, double *p) { return modf(a, p); }
_CL float _cl_sincos(float a, float *p) { float s; sincosf(a, &s, p); return s; }
_CL double _cl_sincos(double a, double *p) { double s; sincos(a, &s, p); return s; }
_CL float _cl_lgamma_r(float a, int *p) {
  *p = a < 0 && floorf(a) != a && fmodf(floorf(a), 2.0f) != 0 ? -1 : a <= 0 && floorf(a) == a && a != 0 ? 0 : a == 0 && signbit(a) ? -1 : 1;
  return lgammaf(a);
}
_CL double _cl_lgamma_r(double a, int *p) {
  *p = a < 0 && floor(a) != a && fmod(floor(a), 2.0) != 0 ? -1 : a <= 0 && floor(a) == a && a != 0 ? 0 : a == 0 && signbit(a) ? -1 : 1;
  return lgamma(a);
}
_CL _cl_half _cl_fract(_cl_half a, _cl_half *p) {
  float f, r = _cl_fract((float)a, &f);
  *p = _cl_half(f);
  return _cl_half(r > 0x1.ffcp-1f ? 0x1.ffcp-1f : r);
}
_CL_HALF_OUT(_cl_modf) _CL_HALF_OUT(_cl_sincos) _CL_HALF_INT(_cl_frexp) _CL_HALF_INT(_cl_lgamma_r)
_CL_OUT(_cl_fract, T) _CL_OUT(_cl_frexp, int) _CL_OUT(_cl_modf, T) _CL_OUT(_cl_sincos, T) _CL_OUT(_cl_lgamma_r, int)
// Seven bits of the quotient; CUDA's has three.  128 |b| is exact, and so is the remainder by it.
_CL float _cl_remquo(float a, float b, int *p) {
  const float x = fabsf(a), y = fabsf(b), most = 128.0f * y;
  const float part = isinf(most) ? x : fmodf(x, most);
  int q = (int)rintf(__fdiv_rn(part - remainderf(part, y), y)) & 127;
  *p = (a < 0) != (b < 0) ? -q : q;
  return remainderf(a, b);
}
_CL double _cl_remquo(double a, double b, int *p) {
  const double x = fabs(a), y = fabs(b), most = 128.0 * y;
  const double part = isinf(most) ? x : fmod(x, most);
  int q = (int)rint((part - remainder(part, y)) / y) & 127;
  *p = (a < 0) != (b < 0) ? -q : q;
  return remainder(a, b);
}
_CL _cl_half _cl_remquo(_cl_half a, _cl_half b, int *p) { return _cl_half(_cl_remquo((float)a, (float)b, p)); }
template<class T, int N> _CL _cl_vec<T, N> _cl_remquo(_cl_vec<T, N> a, _cl_vec<T, N> b, _cl_vec<int, N> *p) {
  _CL_EACH(N) { int q; a.v[i] = _cl_remquo(a.v[i], b.v[i], &q); p->v[i] = q; }
  return a;
}

// native_: as fast as the hardware.  half_: within 8192 ULP, so fast only where that holds everywhere.
#define _CL_FAST1(name, f) _CL float _cl_##name(float a) { return f(a); } _CL_EACH1(_cl_##name)
#define _CL_FAST2(name, f) _CL float _cl_##name(float a, float b) { return f(a, b); } _CL_EACH2(_cl_##name)
#define _CL_QUOTIENT(a, b) ((a) / (b))
_CL float _cl_approximate_exp2(float a) { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
_CL float _cl_approximate_sqrt(float a) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
_CL float _cl_approximate_rcp(float a) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
_CL float _cl_fast_rcp(float a) { return __fdividef(1.0f, a); }
_CL_FAST1(native_cos, __cosf) _CL_FAST1(native_exp, __expf) _CL_FAST1(native_exp2, _cl_approximate_exp2)
_CL_FAST1(native_exp10, __exp10f) _CL_FAST1(native_log, __logf) _CL_FAST1(native_log2, __log2f)
_CL_FAST1(native_log10, __log10f) _CL_FAST1(native_recip, _cl_fast_rcp)
_CL_FAST1(native_rsqrt, rsqrtf) _CL_FAST1(native_sin, __sinf)
_CL_FAST1(native_sqrt, _cl_approximate_sqrt) _CL_FAST1(native_tan, __tanf)
_CL_FAST2(native_divide, __fdividef) _CL_FAST2(native_powr, __powf)
_CL_FAST1(half_cos, cosf) _CL_FAST1(half_exp, __expf) _CL_FAST1(half_exp2, _cl_approximate_exp2)
_CL_FAST1(half_exp10, __exp10f) _CL_FAST1(half_log, logf) _CL_FAST1(half_log2, log2f)
_CL_FAST1(half_log10, log10f) _CL_FAST1(half_recip, _cl_approximate_rcp)
_CL_FAST1(half_rsqrt, rsqrtf) _CL_FAST1(half_sin, sinf)
_CL_FAST1(half_sqrt, _cl_approximate_sqrt) _CL_FAST1(half_tan, tanf)
_CL_FAST2(half_divide, _CL_QUOTIENT) _CL_FAST2(half_powr, powf)

// Integers.
template<_cl_scalar T> _CL _cl_unsigned<T> _cl_abs(T a) {
  return (_cl_unsigned<T>)(a < 0 ? (_cl_unsigned<T>)0 - (_cl_unsigned<T>)a : (_cl_unsigned<T>)a);
}
template<_cl_scalar T> _CL _cl_unsigned<T> _cl_abs_diff(T a, T b) {
  return (_cl_unsigned<T>)(a > b ? (_cl_unsigned<T>)a - (_cl_unsigned<T>)b : (_cl_unsigned<T>)b - (_cl_unsigned<T>)a);
}
template<_cl_scalar T> _CL T _cl_add_sat(T a, T b) {
  typedef _cl_limits<T> L;
  T s = (T)((_cl_unsigned<T>)a + (_cl_unsigned<T>)b);
  if constexpr (L::is_unsigned) return s < a ? L::high : s;
  else return (T)((a ^ s) & (b ^ s)) < 0 ? (a < 0 ? L::low : L::high) : s;
}
template<_cl_scalar T> _CL T _cl_sub_sat(T a, T b) {
  typedef _cl_limits<T> L;
  T s = (T)((_cl_unsigned<T>)a - (_cl_unsigned<T>)b);
  if constexpr (L::is_unsigned) return a < b ? (T)0 : s;
  else return (T)((a ^ b) & (a ^ s)) < 0 ? (a < 0 ? L::low : L::high) : s;
}
template<_cl_scalar T> _CL T _cl_hadd(T a, T b) { return (T)((a >> 1) + (b >> 1) + (a & b & 1)); }
template<_cl_scalar T> _CL T _cl_rhadd(T a, T b) { return (T)((a >> 1) + (b >> 1) + ((a | b) & 1)); }
template<_cl_scalar T> _CL T _cl_mul_hi(T a, T b) {
  if constexpr (sizeof(T) < 8) {
    typedef typename _cl_if<_cl_is_unsigned<T>::value, typename _cl_sized<sizeof(T)>::wide_u, typename _cl_sized<sizeof(T)>::wide_i>::type W;
    return (T)(((W)a * (W)b) >> (8 * sizeof(T)));
  } else if constexpr (_cl_is_unsigned<T>::value) return __umul64hi(a, b);
  else return __mul64hi(a, b);
}
template<_cl_scalar T> _CL T _cl_mad_hi(T a, T b, T c) { return (T)((_cl_unsigned<T>)_cl_mul_hi(a, b) + (_cl_unsigned<T>)c); }
template<_cl_scalar T> _CL T _cl_mad_sat(T a, T b, T c) {
  typedef _cl_limits<T> L;
  T high = _cl_mul_hi(a, b), low = (T)((_cl_unsigned<T>)((_cl_ulong)a * (_cl_ulong)b));
  _cl_unsigned<T> sum = (_cl_unsigned<T>)((_cl_unsigned<T>)low + (_cl_unsigned<T>)c);
  bool carry = sum < (_cl_unsigned<T>)low;
  if constexpr (L::is_unsigned) return high || carry ? L::high : (T)sum;
  else {
    long top = (long)high + (c < 0 ? -1 : 0) + carry;
    if constexpr (sizeof(T) == 8) {
      // Only the sign and whether it is the extension of the low half matter.
      if (top == ((T)sum < 0 ? -1 : 0)) return (T)sum;
    } else if (top == ((T)sum < 0 ? -1 : 0)) return (T)sum;
    return top < 0 ? L::low : L::high;
  }
}
template<_cl_scalar T> _CL T _cl_rotate(T a, T b) {
  const unsigned bits = 8 * sizeof(T), n = (unsigned)b & (bits - 1);
  _cl_unsigned<T> u = (_cl_unsigned<T>)a;
  return (T)(_cl_unsigned<T>)((u << n) | (u >> ((bits - n) & (bits - 1))));
}
template<_cl_scalar T> _CL T _cl_clz(T a) {
  if constexpr (sizeof(T) == 8) return (T)__clzll((long)a);
  else return (T)(__clz((int)(_cl_unsigned<T>)a) - (32 - 8 * (int)sizeof(T)));
}
template<_cl_scalar T> _CL T _cl_ctz(T a) {
  if (a == 0) return (T)(8 * sizeof(T));
  return (T)(__ffsll((long)a) - 1);
}
template<_cl_scalar T> _CL T _cl_popcount(T a) {
  if constexpr (sizeof(T) == 8) return (T)__popcll((_cl_ulong)a);
  else return (T)__popc((unsigned)(_cl_unsigned<T>)a);
}
template<_cl_scalar T> _CL T _cl_mul24(T a, T b) { return a * b; }
template<_cl_scalar T> _CL T _cl_mad24(T a, T b, T c) { return a * b + c; }
template<_cl_scalar T> _CL auto _cl_upsample(T a, _cl_unsigned<T> b) {
  typedef typename _cl_if<_cl_is_unsigned<T>::value, typename _cl_sized<sizeof(T)>::wide_u, typename _cl_sized<sizeof(T)>::wide_i>::type W;
  return (W)((typename _cl_sized<sizeof(T)>::wide_u)a << (8 * sizeof(T)) | b);
}
// clang's own, which NVIDIA's compiler has too.
_CL long _cl___builtin_expect(long a, long) { return a; }
_CL int _cl___builtin_popcount(unsigned a) { return _cl_popcount((int)a); }
_CL int _cl___builtin_popcountl(_cl_ulong a) { return (int)_cl_popcount(a); }
_CL int _cl___builtin_popcountll(_cl_ulong a) { return (int)_cl_popcount(a); }
_CL int _cl___builtin_clz(unsigned a) { return _cl_clz((int)a); }
_CL int _cl___builtin_clzl(_cl_ulong a) { return (int)_cl_clz(a); }
_CL int _cl___builtin_clzll(_cl_ulong a) { return (int)_cl_clz(a); }
_CL int _cl___builtin_ctz(unsigned a) { return _cl_ctz((int)a); }
_CL int _cl___builtin_ctzl(_cl_ulong a) { return (int)_cl_ctz(a); }
_CL int _cl___builtin_ctzll(_cl_ulong a) { return (int)_cl_ctz(a); }
_CL unsigned short _cl___builtin_bswap16(unsigned short a) { return (unsigned short)(a << 8 | a >> 8); }
_CL unsigned _cl___builtin_bswap32(unsigned a) { return a << 24 | (a & 0xff00) << 8 | (a >> 8 & 0xff00) | a >> 24; }
_CL _cl_ulong _cl___builtin_bswap64(_cl_ulong a) {
  return (_cl_ulong)_cl___builtin_bswap32((unsigned)a) << 32 | _cl___builtin_bswap32((unsigned)(a >> 32));
}
_CL int _cl___builtin_abs(int a) { return a < 0 ? (int)(0u - (unsigned)a) : a; }
_CL long _cl___builtin_labs(long a) { return a < 0 ? (long)(0ul - (_cl_ulong)a) : a; }
_CL long _cl___builtin_llabs(long a) { return _cl___builtin_labs(a); }
_CL int _cl___builtin_ffs(int a) { return __ffs(a); }
_CL int _cl___builtin_ffsl(long a) { return __ffsll(a); }
_CL int _cl___builtin_ffsll(long a) { return __ffsll(a); }
_CL int _cl___builtin_parity(unsigned a) { return __popc(a) & 1; }
_CL int _cl___builtin_parityl(_cl_ulong a) { return __popcll(a) & 1; }
_CL int _cl___builtin_parityll(_cl_ulong a) { return __popcll(a) & 1; }
#define _CL_BITS(n, T) \
  _CL T _cl___builtin_bitreverse##n(T a) { return (T)(__brevll(a) >> (64 - n)); } \
  _CL T _cl___builtin_rotateleft##n(T a, T b) { return _cl_rotate(a, b); } \
  _CL T _cl___builtin_rotateright##n(T a, T b) { return _cl_rotate(a, (T)(n - b % n)); }
_CL_BITS(8, _cl_uchar) _CL_BITS(16, _cl_ushort) _CL_BITS(32, _cl_uint) _CL_BITS(64, _cl_ulong)
_CL long _cl___builtin_unpredictable(long a) { return a; }
_CL _cl_ulong _cl___builtin_readcyclecounter() { return (_cl_ulong)clock64(); }
_CL void _cl___builtin_prefetch(const volatile void *, int = 0, int = 0) {}
template<class T> _CL T _cl___builtin_nontemporal_load(const T *p) { return *p; }
template<class T> _CL void _cl___builtin_nontemporal_store(T a, T *p) { *p = a; }
_CL_EACH1(_cl_abs) _CL_EACH1(_cl_clz) _CL_EACH1(_cl_ctz) _CL_EACH1(_cl_popcount)
_CL_EACH2(_cl_abs_diff) _CL_EACH2(_cl_add_sat) _CL_EACH2(_cl_sub_sat) _CL_EACH2(_cl_hadd)
_CL_EACH2(_cl_rhadd) _CL_EACH2(_cl_mul_hi) _CL_EACH2(_cl_rotate) _CL_EACH2(_cl_mul24) _CL_EACH2(_cl_upsample)
_CL_EACH3(_cl_mad_hi) _CL_EACH3(_cl_mad_sat) _CL_EACH3(_cl_mad24)

// Common functions; max, min and clamp are for integers too.
template<_cl_scalar T> _CL T _cl_max(T a, T b) { return a < b ? b : a; }
template<_cl_scalar T> _CL T _cl_min(T a, T b) { return b < a ? b : a; }
_CL float _cl_max(float a, float b) { return fmaxf(a, b); }
_CL float _cl_min(float a, float b) { return fminf(a, b); }
_CL double _cl_max(double a, double b) { return fmax(a, b); }
_CL double _cl_min(double a, double b) { return fmin(a, b); }
template<_cl_scalar T> _CL T _cl_clamp(T a, T low, T high) { return _cl_min(_cl_max(a, low), high); }
_CL_EACH2(_cl_max) _CL_LAST1(_cl_max) _CL_EACH2(_cl_min) _CL_LAST1(_cl_min)
template<class T, int N> _CL _cl_vec<T, N> _cl_clamp(_cl_vec<T, N> a, _cl_vec<T, N> low, _cl_vec<T, N> high) {
  _CL_EACH(N) a.v[i] = _cl_clamp(a.v[i], low.v[i], high.v[i]);
  return a;
}
template<class T, int N> _CL _cl_vec<T, N> _cl_clamp(_cl_vec<T, N> a, T low, T high) {
  _CL_EACH(N) a.v[i] = _cl_clamp(a.v[i], low, high);
  return a;
}
template<class T> _CL T _cl_mix(T a, T b, T t) { return a + (b - a) * t; }
template<class T, int N> _CL _cl_vec<T, N> _cl_mix(_cl_vec<T, N> a, _cl_vec<T, N> b, T t) {
  return a + (b - a) * _cl_splat<_cl_vec<T, N>>(t);
}
_CL float _cl_degrees(float a) { return a * (float)(180 / _CL_PI); }
_CL double _cl_degrees(double a) { return a * (180 / _CL_PI); }
_CL float _cl_radians(float a) { return a * (float)(_CL_PI / 180); }
_CL double _cl_radians(double a) { return a * (_CL_PI / 180); }
_CL float _cl_sign(float a) { return a > 0 ? 1.0f : a < 0 ? -1.0f : isnan(a) ? 0.0f : a; }
_CL double _cl_sign(double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : isnan(a) ? 0.0 : a; }
_CL float _cl_step(float edge, float a) { return a < edge ? 0.0f : 1.0f; }
_CL double _cl_step(double edge, double a) { return a < edge ? 0.0 : 1.0; }
_CL float _cl_smoothstep(float low, float high, float a) {
  float t = __saturatef((a - low) / (high - low));
  return t * t * (3 - 2 * t);
}
_CL double _cl_smoothstep(double low, double high, double a) {
  double t = _cl_clamp((a - low) / (high - low), 0.0, 1.0);
  return t * t * (3 - 2 * t);
}
_CL_HALF1(_cl_degrees) _CL_HALF1(_cl_radians) _CL_HALF1(_cl_sign) _CL_HALF2(_cl_step) _CL_HALF3(_cl_smoothstep)
_CL_EACH1(_cl_degrees) _CL_EACH1(_cl_radians) _CL_EACH1(_cl_sign) _CL_EACH2(_cl_step) _CL_EACH3(_cl_smoothstep)
template<class T, int N> _CL _cl_vec<T, N> _cl_step(T edge, _cl_vec<T, N> a) {
  _CL_EACH(N) a.v[i] = _cl_step(edge, a.v[i]);
  return a;
}
template<class T, int N> _CL _cl_vec<T, N> _cl_smoothstep(T low, T high, _cl_vec<T, N> a) {
  _CL_EACH(N) a.v[i] = _cl_smoothstep(low, high, a.v[i]);
  return a;
}

// Geometry.
template<_cl_scalar T> _CL T _cl_dot(T a, T b) { return a * b; }
template<class T, int N> _CL T _cl_dot(_cl_vec<T, N> a, _cl_vec<T, N> b) {
  T r = a.v[0] * b.v[0];
  for (int i = 1; i < N; i++) r = r + a.v[i] * b.v[i];
  return r;
}
template<_cl_scalar T> _CL _cl_vec<T, 3> _cl_cross(_cl_vec<T, 3> a, _cl_vec<T, 3> b) {
  return {{a.v[1] * b.v[2] - a.v[2] * b.v[1], a.v[2] * b.v[0] - a.v[0] * b.v[2], a.v[0] * b.v[1] - a.v[1] * b.v[0]}};
}
template<_cl_scalar T> _CL _cl_vec<T, 4> _cl_cross(_cl_vec<T, 4> a, _cl_vec<T, 4> b) {
  return {{a.v[1] * b.v[2] - a.v[2] * b.v[1], a.v[2] * b.v[0] - a.v[0] * b.v[2], a.v[0] * b.v[1] - a.v[1] * b.v[0], (T)0}};
}
// Lengths must not overflow or vanish where the result would not: scale by the largest element.
template<_cl_scalar T> _CL T _cl_length(T a) { return _cl_fabs(a); }
template<class T, int N> _CL T _cl_length(_cl_vec<T, N> a) {
  T s = _cl_dot(a, a);
  const T tiny = sizeof(T) == 4 ? (T)1e-30f : (T)1e-290, huge = sizeof(T) == 4 ? (T)1e37f : (T)1e300;
  if (!(s > tiny && s < huge)) {
    T m = 0;
    _CL_EACH(N) m = _cl_fmax(m, _cl_fabs(a.v[i]));
    const int n = m > 0 && !isinf(m) ? _cl_ilogb(m) : 0;
    if (n) {
      _CL_EACH(N) a.v[i] = _cl_ldexp(a.v[i], -n);
      return _cl_ldexp(_cl_sqrt(_cl_dot(a, a)), n);
    }
  }
  return _cl_sqrt(s);
}
template<int N> _CL _cl_half _cl_length(_cl_vec<_cl_half, N> a) {
  return _cl_half(_cl_length(_cl_convert<_cl_vec<float, N>, false, -1>(a)));
}
template<class V> _CL auto _cl_distance(V a, V b) { return _cl_length(a - b); }
_CL float _cl_normalize(float a) { return _cl_sign(a); }
_CL double _cl_normalize(double a) { return _cl_sign(a); }
_CL _cl_half _cl_normalize(_cl_half a) { return _cl_sign(a); }
template<class T, int N> _CL _cl_vec<T, N> _cl_normalize(_cl_vec<T, N> a) {
  T n = _cl_length(a);
  if (!(n > 0)) return a;
  if (n > (sizeof(T) == 4 ? (T)3e38f : (T)1.7e308)) {
    bool infinite = false;
    _CL_EACH(N) infinite |= isinf(a.v[i]);
    if (infinite) { _CL_EACH(N) a.v[i] = isinf(a.v[i]) ? _cl_copysign((T)1, a.v[i]) : _cl_copysign((T)0, a.v[i]); }
    else a = a * _cl_splat<_cl_vec<T, N>>((T)0.125);
    n = _cl_length(a);
  }
  return a / _cl_splat<_cl_vec<T, N>>(n);
}
template<int N> _CL _cl_vec<_cl_half, N> _cl_normalize(_cl_vec<_cl_half, N> a) {
  return _cl_convert<_cl_vec<_cl_half, N>, false, -1>(_cl_normalize(_cl_convert<_cl_vec<float, N>, false, -1>(a)));
}
template<int N> _CL float _cl_fast_length(_cl_vec<float, N> a) { return _cl_approximate_sqrt(_cl_dot(a, a)); }
_CL float _cl_fast_length(float a) { return fabsf(a); }
template<class V> _CL float _cl_fast_distance(V a, V b) { return _cl_fast_length(a - b); }
_CL float _cl_fast_normalize(float a) { return _cl_sign(a); }
template<int N> _CL _cl_vec<float, N> _cl_fast_normalize(_cl_vec<float, N> a) {
  float s = _cl_dot(a, a);
  return s == 0 ? a : a * _cl_splat<_cl_vec<float, N>>(rsqrtf(s));
}

// Relations: 1 for a true scalar, -1 for a true element.
#define _CL_RELATION(name, expression) \
  template<_cl_scalar T> _CL int _cl_##name(T a, T b) { return expression; } \
  template<class T, int N> _CL _cl_vec<_cl_signed<T>, N> _cl_##name(_cl_vec<T, N> a, _cl_vec<T, N> b) { \
    _cl_vec<_cl_signed<T>, N> r; \
    _CL_EACH(N) r.v[i] = -_cl_##name(a.v[i], b.v[i]); \
    return r; \
  }
_CL_RELATION(isequal, a == b) _CL_RELATION(isnotequal, a != b) _CL_RELATION(isgreater, a > b)
_CL_RELATION(isgreaterequal, a >= b) _CL_RELATION(isless, a < b) _CL_RELATION(islessequal, a <= b)
_CL_RELATION(islessgreater, a < b || a > b) _CL_RELATION(isordered, a == a && b == b)
_CL_RELATION(isunordered, !(a == a && b == b))
#define _CL_CLASS(name, expression) \
  template<_cl_scalar T> _CL int _cl_##name(T a) { \
    constexpr int mantissa = sizeof(T) == 2 ? 10 : sizeof(T) == 4 ? 23 : 52; \
    typedef _cl_unsigned<T> U; \
    const U bits = _cl_as<U>(a), sign = (U)((U)1 << (8 * sizeof(T) - 1)), magnitude = (U)(bits & ~sign); \
    const U infinity = (U)((sign - 1) >> mantissa << mantissa), smallest = (U)((U)1 << mantissa); \
    return expression; \
  } \
  template<class T, int N> _CL _cl_vec<_cl_signed<T>, N> _cl_##name(_cl_vec<T, N> a) { \
    _cl_vec<_cl_signed<T>, N> r; \
    _CL_EACH(N) r.v[i] = -_cl_##name(a.v[i]); \
    return r; \
  }
_CL_CLASS(isfinite, magnitude < infinity) _CL_CLASS(isinf, magnitude == infinity)
_CL_CLASS(isnan, magnitude > infinity) _CL_CLASS(isnormal, magnitude >= smallest && magnitude < infinity)
_CL_CLASS(signbit, (bits & sign) != 0)
template<_cl_scalar T> _CL int _cl_any(T a) { return a < 0; }
template<_cl_scalar T> _CL int _cl_all(T a) { return a < 0; }
template<class T, int N> _CL int _cl_any(_cl_vec<T, N> a) {
  int r = 0;
  _CL_EACH(N) r |= a.v[i] < 0;
  return r;
}
template<class T, int N> _CL int _cl_all(_cl_vec<T, N> a) {
  int r = 1;
  _CL_EACH(N) r &= a.v[i] < 0;
  return r;
}
template<_cl_scalar T> _CL T _cl_bitselect(T a, T b, T c) {
  typedef _cl_unsigned<T> U;
  U x = _cl_as<U>(a), y = _cl_as<U>(b), z = _cl_as<U>(c);
  return _cl_as<T>((U)((x & ~z) | (y & z)));
}
_CL_EACH3(_cl_bitselect)
template<_cl_scalar T, class C> _CL T _cl_select(T a, T b, C c) { return c ? b : a; }
template<class T, class C, int N> _CL _cl_vec<T, N> _cl_select(_cl_vec<T, N> a, _cl_vec<T, N> b, _cl_vec<C, N> c) {
  return _cl_choose(c, b, a);
}
template<class T, class M, int N, int K> _CL _cl_vec<T, K> _cl_shuffle(_cl_vec<T, N> a, _cl_vec<M, K> m) {
  _cl_vec<T, K> r;
  _CL_EACH(K) r.v[i] = a.v[m.v[i] & (N - 1)];
  return r;
}
template<class T, class M, int N, int K> _CL _cl_vec<T, K> _cl_shuffle2(_cl_vec<T, N> a, _cl_vec<T, N> b, _cl_vec<M, K> m) {
  _cl_vec<T, K> r;
  _CL_EACH(K) { int n = m.v[i] & (2 * N - 1); r.v[i] = n < N ? a.v[n & (N - 1)] : b.v[n & (N - 1)]; }
  return r;
}
