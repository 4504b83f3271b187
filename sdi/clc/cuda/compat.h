// What OpenCL C has and CUDA C++ lacks, part 1: half, vectors, operators, conversions.
// Source: OpenCL C 3.0 specification, sections 6.3 to 6.5.  Everything is named _cl_..., so that the
// program's own names, which lie in a namespace, never meet it.

#define _CL static __device__ __forceinline__
#define _CL_EACH(N) _Pragma("unroll") for (int i = 0; i < (N); i++)

#ifdef __CUDACC_RTC__  // which has __builtin_offsetof only from 13.1 on
#define _CL_OFFSET(type, field) __INTADDR__(&((type *)0)->field)
#else
#define _CL_OFFSET(type, field) __builtin_offsetof(type, field)
#endif

typedef unsigned char _cl_uchar;
typedef unsigned short _cl_ushort;
typedef unsigned int _cl_uint;
typedef unsigned long _cl_ulong;
typedef unsigned long _cl_size;
struct _cl_event { int id; __device__ explicit constexpr _cl_event(long n = 0) : id((int)n) {} };

template<bool C, class A, class B> struct _cl_if { typedef A type; };
template<class A, class B> struct _cl_if<false, A, B> { typedef B type; };
template<class T> struct _cl_bare { typedef T type; };
template<class T> struct _cl_bare<const T> { typedef T type; };
template<class T> struct _cl_bare<volatile T> { typedef T type; };
template<class T> struct _cl_bare<const volatile T> { typedef T type; };
template<class A, class B> struct _cl_same { static constexpr bool value = false; };
template<class A> struct _cl_same<A, A> { static constexpr bool value = true; };
template<int NBYTES> struct _cl_sized;
template<> struct _cl_sized<1> { typedef char i; typedef unsigned char u; typedef short wide_i; typedef unsigned short wide_u; };
template<> struct _cl_sized<2> { typedef short i; typedef unsigned short u; typedef int wide_i; typedef unsigned wide_u; };
template<> struct _cl_sized<4> { typedef int i; typedef unsigned u; typedef long wide_i; typedef unsigned long wide_u; };
template<> struct _cl_sized<8> { typedef long i; typedef unsigned long u; typedef long wide_i; typedef unsigned long wide_u; };
template<class T> using _cl_signed = typename _cl_sized<sizeof(T)>::i;
template<class T> using _cl_unsigned = typename _cl_sized<sizeof(T)>::u;

// Half: stored in 16 bits, computed in float and rounded, which is exact for + - * / and square root.
struct _cl_half {
  unsigned short bits;
  _cl_half() = default;
  __device__ explicit _cl_half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ explicit _cl_half(double x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x)); }
  template<class T> __device__ explicit _cl_half(T x) : _cl_half((float)x) {}
  __device__ explicit operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
  template<class T> __device__ explicit operator T() const { return (T)(float)*this; }
};
#define _CL_HALF_OP(op) \
  _CL _cl_half operator op(_cl_half a, _cl_half b) { return _cl_half((float)a op (float)b); }
_CL_HALF_OP(+) _CL_HALF_OP(-) _CL_HALF_OP(*) _CL_HALF_OP(/)
#define _CL_HALF_COMPARE(op) _CL bool operator op(_cl_half a, _cl_half b) { return (float)a op (float)b; }
_CL_HALF_COMPARE(<) _CL_HALF_COMPARE(>) _CL_HALF_COMPARE(<=) _CL_HALF_COMPARE(>=)
_CL_HALF_COMPARE(==) _CL_HALF_COMPARE(!=)
_CL _cl_half operator-(_cl_half a) { a.bits ^= 0x8000; return a; }
_CL _cl_half operator+(_cl_half a) { return a; }
_CL bool operator!(_cl_half a) { return !(a.bits & 0x7fff); }
// With a double in double, else in float; an integer that is assigned to becomes a half first.
#define _CL_HALF_TO(op) \
  template<class B> _CL _cl_half &operator op##=(_cl_half &a, B b) { \
    typedef typename _cl_if<_cl_same<B, double>::value, double, float>::type T; \
    return a = _cl_half((T)a op (T)b); \
  } \
  template<class A> requires(!_cl_same<typename _cl_bare<A>::type, _cl_half>::value) _CL A &operator op##=(A &a, _cl_half b) { \
    return a = (A)(_cl_half(a) op b); \
  }
_CL_HALF_TO(+) _CL_HALF_TO(-) _CL_HALF_TO(*) _CL_HALF_TO(/)
#undef _CL_HALF_TO
_CL _cl_half &operator++(_cl_half &a) { return a += 1.0f; }
_CL _cl_half &operator--(_cl_half &a) { return a -= 1.0f; }
_CL _cl_half operator++(_cl_half &a, int) { _cl_half b = a; ++a; return b; }
_CL _cl_half operator--(_cl_half &a, int) { _cl_half b = a; --a; return b; }

// Truth counts as 1 and 0: C++ has neither operator of it.
template<class B> _CL bool _cl_bool_pre(B &a, int by) { return a = a + by != 0; }
template<class B> _CL bool _cl_bool_post(B &a, int by) { const bool before = a; a = a + by != 0; return before; }

template<class T> struct _cl_is_float { static constexpr bool value = false; };
template<> struct _cl_is_float<float> { static constexpr bool value = true; };
template<> struct _cl_is_float<double> { static constexpr bool value = true; };
template<> struct _cl_is_float<_cl_half> { static constexpr bool value = true; };
template<class T> struct _cl_is_unsigned { static constexpr bool value = !_cl_is_float<T>::value && (T)-1 > (T)0; };
template<> struct _cl_is_unsigned<_cl_half> { static constexpr bool value = false; };

// Scalars, volatile or not: C++ does not copy volatile objects of a class.
template<class T> using _cl_value = typename _cl_bare<T>::type;
template<class T> _CL _cl_value<T> _cl_read(T &a) {
  if constexpr (_cl_same<_cl_value<T>, _cl_half>::value) return __builtin_bit_cast(_cl_half, (unsigned short)a.bits);
  else return a;
}
template<class T> _CL void _cl_write(T &a, _cl_value<T> b) {
  if constexpr (_cl_same<_cl_value<T>, _cl_half>::value) a.bits = b.bits;
  else a = b;
}

_CL _cl_half operator++(volatile _cl_half &a) { _cl_half b = _cl_read(a); _cl_write(a, ++b); return b; }
_CL _cl_half operator--(volatile _cl_half &a) { _cl_half b = _cl_read(a); _cl_write(a, --b); return b; }
_CL _cl_half operator++(volatile _cl_half &a, int) { _cl_half b = _cl_read(a), c = b; _cl_write(a, ++c); return b; }
_CL _cl_half operator--(volatile _cl_half &a, int) { _cl_half b = _cl_read(a), c = b; _cl_write(a, --c); return b; }

// An array as a value: what a compound literal is.
template<class T, int N> struct _cl_list { T v[N]; };

// Vectors.  Three elements lie in memory as four do.  The fourth has no meaning, but is copied with them: bytes
// of no element are copied one by one.
template<class T, int N> struct alignas(sizeof(T) * (N == 3 ? 4 : N)) _cl_vec {
  typedef T element;
  static constexpr int count = N;
  T v[N == 3 ? 4 : N];
};

template<class T> struct _cl_is_vec { static constexpr bool value = false; };
template<class T, int N> struct _cl_is_vec<_cl_vec<T, N>> { static constexpr bool value = true; };
template<class T> concept _cl_scalar = !_cl_is_vec<T>::value;

template<class V, class T> constexpr _CL V _cl_splat(T s) {
  V r{};
  for (int i = 0; i < V::count; i++) r.v[i] = (typename V::element)s;
  return r;
}
template<class V, class T> constexpr _CL void _cl_put(V &r, int &n, T s) { r.v[n++] = (typename V::element)s; }
template<class V, class T, int N> constexpr _CL void _cl_put(V &r, int &n, _cl_vec<T, N> a) {
  for (int i = 0; i < N; i++) r.v[n++] = a.v[i];
}
template<class V, class... A> constexpr _CL V _cl_make(A... a) {
  V r{};
  int n = 0;
  (_cl_put(r, n, a), ...);
  return r;
}
template<int I, class T, int N> constexpr _CL T _cl_get(_cl_vec<T, N> a) { return a.v[I]; }
template<int... I, class T, int N> constexpr _CL _cl_vec<T, sizeof...(I)> _cl_swizzle(_cl_vec<T, N> a) {
  return _cl_vec<T, sizeof...(I)>{{a.v[I]...}};
}

// Several components as the target of an assignment.
template<class V, int... I> struct _cl_components {
  typedef typename _cl_bare<V>::type::element T;
  typedef _cl_vec<T, sizeof...(I)> value_type;
  V &r;
  __device__ __forceinline__ value_type get() const { return value_type{{_cl_read(r.v[I])...}}; }
  __device__ __forceinline__ value_type operator=(value_type b) const {
    int n = 0;
    (_cl_write(r.v[I], b.v[n++]), ...);
    return b;
  }
#define _CL_TO(op) \
  __device__ __forceinline__ value_type operator op##=(value_type b) const { return *this = get() op b; }
  _CL_TO(+) _CL_TO(-) _CL_TO(*) _CL_TO(/) _CL_TO(%) _CL_TO(&) _CL_TO(|) _CL_TO(^)
#undef _CL_TO
  __device__ __forceinline__ value_type operator++() const { return *this = get() + _cl_splat<value_type>(1); }
  __device__ __forceinline__ value_type operator--() const { return *this = get() - _cl_splat<value_type>(1); }
  __device__ __forceinline__ value_type operator++(int) const { value_type a = get(); ++*this; return a; }
  __device__ __forceinline__ value_type operator--(int) const { value_type a = get(); --*this; return a; }
};
template<int... I, class V> _CL _cl_components<V, I...> _cl_ref(V &r) { return _cl_components<V, I...>{r}; }

// Volatile vectors are copied by elements, records and halves by the largest units.
template<class V, class T, int N> _CL V _cl_load(const volatile _cl_vec<T, N> &a) {
  V r;
  _CL_EACH(N) r.v[i] = _cl_read(a.v[i]);
  return r;
}
template<class T, int N> _CL _cl_vec<T, N> _cl_store(volatile _cl_vec<T, N> &a, _cl_vec<T, N> b) {
  _CL_EACH(N) _cl_write(a.v[i], b.v[i]);
  return b;
}
template<class V> struct _cl_units {
  typedef typename _cl_if<alignof(V) % 2 == 0, unsigned short, unsigned char>::type narrow;
  typedef typename _cl_if<alignof(V) % 4 == 0, unsigned, narrow>::type T;
  T at[sizeof(V) / sizeof(T)];
};
template<class V> requires(!_cl_is_vec<V>::value) _CL V _cl_load(const volatile V &a) {
  _cl_units<V> r;
  _CL_EACH(sizeof r.at / sizeof *r.at) r.at[i] = ((const volatile _cl_units<V> *)&a)->at[i];
  return __builtin_bit_cast(V, r);
}
template<class V> requires(!_cl_is_vec<V>::value) _CL V _cl_store(volatile V &a, V b) {
  const _cl_units<V> r = __builtin_bit_cast(_cl_units<V>, b);
  _CL_EACH(sizeof r.at / sizeof *r.at) ((volatile _cl_units<V> *)&a)->at[i] = r.at[i];
  return b;
}
#define _CL_HALF_TO(op) \
  template<class B> _CL _cl_half operator op##=(volatile _cl_half &a, B b) { \
    _cl_half c = _cl_load<_cl_half>(a); \
    return _cl_store(a, c op##= b); \
  }
_CL_HALF_TO(+) _CL_HALF_TO(-) _CL_HALF_TO(*) _CL_HALF_TO(/)

// Of three elements in memory that others see, the fourth is not written.
template<class T> _CL _cl_vec<T, 3> _cl_store(_cl_vec<T, 3> &a, _cl_vec<T, 3> b) {
  *(_cl_vec<T, 2> *)a.v = _cl_vec<T, 2>{{b.v[0], b.v[1]}};
  a.v[2] = b.v[2];
  return b;
}

// Functions by name, not one that is given the operation: NVRTC 13.0 takes such a lambda for a host's.
#define _CL_MEMORY_TO(name, done) \
  template<class T, int N, class B> _CL _cl_vec<T, N> _cl_memory_##name(volatile _cl_vec<T, N> &to, B b) { \
    const _cl_vec<T, N> a = _cl_load<_cl_vec<T, N>>(to); \
    return _cl_store(to, done); \
  } \
  template<class T, class B> _CL _cl_vec<T, 3> _cl_memory_##name(_cl_vec<T, 3> &to, B b) { \
    const _cl_vec<T, 3> a = to; \
    return _cl_store(to, done); \
  }
_CL_MEMORY_TO(add, a + b) _CL_MEMORY_TO(sub, a - b) _CL_MEMORY_TO(mul, a * b) _CL_MEMORY_TO(div, a / b)
_CL_MEMORY_TO(rem, a % b) _CL_MEMORY_TO(ands, a & b) _CL_MEMORY_TO(ors, a | b) _CL_MEMORY_TO(xors, a ^ b)
_CL_MEMORY_TO(shl, _cl_shl(a, b)) _CL_MEMORY_TO(shr, _cl_shr(a, b))

#define _CL_OP(op) \
  template<class T, int N> constexpr _CL _cl_vec<T, N> operator op(_cl_vec<T, N> a, _cl_vec<T, N> b) { \
    _cl_vec<T, N> r{}; \
    for (int i = 0; i < N; i++) r.v[i] = (T)(a.v[i] op b.v[i]); \
    return r; \
  } \
  template<class T, int N> _CL _cl_vec<T, N> &operator op##=(_cl_vec<T, N> &a, _cl_vec<T, N> b) { \
    return a = a op b; \
  }
_CL_OP(+) _CL_OP(-) _CL_OP(*) _CL_OP(/) _CL_OP(%) _CL_OP(&) _CL_OP(|) _CL_OP(^)
#define _CL_COMPARE(op) \
  template<class T, int N> _CL _cl_vec<_cl_signed<T>, N> operator op(_cl_vec<T, N> a, _cl_vec<T, N> b) { \
    _cl_vec<_cl_signed<T>, N> r; \
    _CL_EACH(N) r.v[i] = a.v[i] op b.v[i] ? -1 : 0; \
    return r; \
  }
_CL_COMPARE(<) _CL_COMPARE(>) _CL_COMPARE(<=) _CL_COMPARE(>=) _CL_COMPARE(==) _CL_COMPARE(!=)
#define _CL_LOGICAL(name, op) \
  template<class T, int N> _CL _cl_vec<_cl_signed<T>, N> name(_cl_vec<T, N> a, _cl_vec<T, N> b) { \
    _cl_vec<_cl_signed<T>, N> r; \
    _CL_EACH(N) r.v[i] = (a.v[i] != (T)0) op (b.v[i] != (T)0) ? -1 : 0; \
    return r; \
  }
_CL_LOGICAL(_cl_and, &&) _CL_LOGICAL(_cl_or, ||)
template<class T, int N> _CL _cl_vec<_cl_signed<T>, N> _cl_not(_cl_vec<T, N> a) {
  _cl_vec<_cl_signed<T>, N> r;
  _CL_EACH(N) r.v[i] = a.v[i] == (T)0 ? -1 : 0;
  return r;
}
#define _CL_UNARY(op) \
  template<class T, int N> constexpr _CL _cl_vec<T, N> operator op(_cl_vec<T, N> a) { \
    for (int i = 0; i < N; i++) a.v[i] = (T)(op a.v[i]); \
    return a; \
  }
_CL_UNARY(-) _CL_UNARY(+) _CL_UNARY(~)
template<class T, int N> _CL _cl_vec<T, N> &operator++(_cl_vec<T, N> &a) { return a += _cl_splat<_cl_vec<T, N>>(1); }
template<class T, int N> _CL _cl_vec<T, N> &operator--(_cl_vec<T, N> &a) { return a -= _cl_splat<_cl_vec<T, N>>(1); }
template<class T, int N> _CL _cl_vec<T, N> operator++(_cl_vec<T, N> &a, int) { _cl_vec<T, N> b = a; ++a; return b; }
template<class T, int N> _CL _cl_vec<T, N> operator--(_cl_vec<T, N> &a, int) { _cl_vec<T, N> b = a; --a; return b; }

// a * b + c, rounded once.
constexpr _CL float _cl_fused(float a, float b, float c) {
  return __builtin_is_constant_evaluated() ? a * b + c : fmaf(a, b, c);
}
constexpr _CL double _cl_fused(double a, double b, double c) {
  return __builtin_is_constant_evaluated() ? a * b + c : fma(a, b, c);
}
template<class T, int N> constexpr _CL _cl_vec<T, N> _cl_fused(_cl_vec<T, N> a, _cl_vec<T, N> b, _cl_vec<T, N> c) {
  for (int i = 0; i < N; i++) c.v[i] = _cl_fused(a.v[i], b.v[i], c.v[i]);
  return c;
}
template<class T> _CL T _cl_fused_to(T &c, T a, T b) { return c = _cl_fused(a, b, c); }
template<class T, int N> _CL _cl_vec<T, N> _cl_fused_to(_cl_vec<T, N> &c, _cl_vec<T, N> a, _cl_vec<T, N> b) {
  _CL_EACH(N) c.v[i] = _cl_fused(a.v[i], b.v[i], c.v[i]);
  return c;
}
template<class V, int... I, class T> _CL T _cl_fused_to(_cl_components<V, I...> c, T a, T b) {
  return c = _cl_fused(a, b, c.get());
}

// A shift counts modulo the width of the promoted left operand; vector elements are not promoted.
template<class A, class B> constexpr _CL auto _cl_shl(A a, B b) { return +a << (b & (B)(sizeof(+a) * 8 - 1)); }
template<class A, class B> constexpr _CL auto _cl_shr(A a, B b) { return +a >> (b & (B)(sizeof(+a) * 8 - 1)); }
#define _CL_SHIFT(name, op) \
  template<class T, class U, int N> constexpr _CL _cl_vec<T, N> name(_cl_vec<T, N> a, _cl_vec<U, N> b) { \
    for (int i = 0; i < N; i++) a.v[i] = (T)(a.v[i] op ((_cl_unsigned<T>)b.v[i] & (sizeof(T) * 8 - 1))); \
    return a; \
  } \
  template<class A, class B> _CL auto name##_to(A &a, B b) { \
    typename _cl_bare<A>::type c = a; \
    c = (typename _cl_bare<A>::type)name(c, b); \
    return a = c; \
  } \
  template<class T, int N, class B> _CL _cl_vec<T, N> name##_to(_cl_vec<T, N> &a, B b) { return a = name(a, b); } \
  template<class V, int... I, class B> _CL auto name##_to(_cl_components<V, I...> a, B b) { \
    return a = name(a.get(), b); \
  }
_CL_SHIFT(_cl_shl, <<) _CL_SHIFT(_cl_shr, >>)

// c ? a : b, by the most significant bit of each element of c.
template<class C, class T, int N> _CL _cl_vec<T, N> _cl_choose(_cl_vec<C, N> c, _cl_vec<T, N> a, _cl_vec<T, N> b) {
  _CL_EACH(N) b.v[i] = (_cl_signed<C>)c.v[i] < 0 ? a.v[i] : b.v[i];
  return b;
}

template<class To, class From> constexpr _CL To _cl_as(From a) {
  if constexpr (sizeof(To) == sizeof(From)) {
    return __builtin_bit_cast(To, a);
  }
}

// A parameter of a kernel whose type is aligned to more than 16 bytes.
template<class T> struct alignas(16) _cl_boxed {
  unsigned bytes[sizeof(T) / 4];
  __device__ __forceinline__ T value() const { return __builtin_bit_cast(T, *this); }
};

// Conversions.  Roundings: 0 to even, 1 to zero, 2 up, 3 down, -1 as the language has it.
#define _CL_ROUND(R, call, ...) \
  ((R) == 1 ? call##z(__VA_ARGS__) : (R) == 2 ? call##u(__VA_ARGS__) : (R) == 3 ? call##d(__VA_ARGS__) : call##n(__VA_ARGS__))
template<int R> _CL _cl_half _cl_to_half(float a) {
  _cl_half h;
  if constexpr (R == 1) asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(a));
  else if constexpr (R == 2) asm("cvt.rp.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(a));
  else if constexpr (R == 3) asm("cvt.rm.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(a));
  else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(a));
  return h;
}
template<int R> _CL _cl_half _cl_to_half(double a) {
  _cl_half h;
  if constexpr (R == 1) asm("cvt.rz.f16.f64 %0, %1;" : "=h"(h.bits) : "d"(a));
  else if constexpr (R == 2) asm("cvt.rp.f16.f64 %0, %1;" : "=h"(h.bits) : "d"(a));
  else if constexpr (R == 3) asm("cvt.rm.f16.f64 %0, %1;" : "=h"(h.bits) : "d"(a));
  else asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h.bits) : "d"(a));
  return h;
}
template<class To, int R, class From> _CL To _cl_to_float(From a) {
  if constexpr (_cl_same<To, From>::value) return a;
  else if constexpr (_cl_same<From, _cl_half>::value) return (To)(float)a;
  else if constexpr (_cl_same<To, _cl_half>::value) {
    if constexpr (_cl_is_float<From>::value) return _cl_to_half<R>(a);
    else if constexpr (sizeof(From) < 4) return _cl_to_half<R>((float)a);
    else return _cl_to_half<R>((double)a);
  } else if constexpr (R <= 0 || sizeof(From) < sizeof(To) || (sizeof(From) <= 2)) return (To)a;
  else if constexpr (_cl_same<To, float>::value) {
    if constexpr (_cl_same<From, double>::value) return _CL_ROUND(R, __double2float_r, a);
    else if constexpr (sizeof(From) == 8 && _cl_is_unsigned<From>::value) return _CL_ROUND(R, __ull2float_r, a);
    else if constexpr (sizeof(From) == 8) return _CL_ROUND(R, __ll2float_r, a);
    else if constexpr (_cl_is_unsigned<From>::value) return _CL_ROUND(R, __uint2float_r, a);
    else return _CL_ROUND(R, __int2float_r, a);
  } else if constexpr (_cl_is_float<From>::value) return (To)a;
  else if constexpr (_cl_is_unsigned<From>::value) return _CL_ROUND(R, __ull2double_r, a);
  else return _CL_ROUND(R, __ll2double_r, a);
}
template<class To> struct _cl_limits {
  static constexpr bool is_unsigned = _cl_is_unsigned<To>::value;
  static constexpr To low = is_unsigned ? (To)0 : (To)((To)1 << (sizeof(To) * 8 - 1));
  static constexpr To high = (To)~low;
};
template<class To, bool SAT, int R, class From> _CL To _cl_to_int(From a) {
  typedef _cl_limits<To> L;
  if constexpr (_cl_same<From, _cl_half>::value) return _cl_to_int<To, SAT, R, float>((float)a);
  else if constexpr (_cl_is_float<From>::value) {
    if constexpr (R == 0) a = _cl_same<From, float>::value ? (From)rintf(a) : (From)rint(a);
    else if constexpr (R == 2) a = _cl_same<From, float>::value ? (From)ceilf(a) : (From)ceil(a);
    else if constexpr (R == 3) a = _cl_same<From, float>::value ? (From)floorf(a) : (From)floor(a);
    if constexpr (SAT) {
      // The first power of two beyond the type is exact in every floating-point type.
      const From past = (From)(L::high / 2 + 1) * (From)2;
      if (!(a == a)) return 0;
      if (a >= past) return L::high;
      if (L::is_unsigned ? a <= (From)-1 || a < (From)0 : a < -past) return L::low;
    }
    if constexpr (L::is_unsigned && sizeof(To) == 8) return (To)a;
    else return (To)(long)a;
  } else if constexpr (SAT) {
    typedef _cl_limits<From> F;
    if constexpr (F::is_unsigned) return (_cl_ulong)a > (_cl_ulong)L::high ? L::high : (To)a;
    else if constexpr (L::is_unsigned) return a < 0 ? (To)0 : (_cl_ulong)a > (_cl_ulong)L::high ? L::high : (To)a;
    else return (long)a < (long)L::low ? L::low : (long)a > (long)L::high ? L::high : (To)a;
  } else return (To)a;
}
template<class To, bool SAT, int R, class From> _CL To _cl_convert(From a) {
  if constexpr (_cl_is_float<To>::value) return _cl_to_float<To, R>(a);
  else return _cl_to_int<To, SAT, R>(a);
}
template<class To, bool SAT, int R, class From, int N> _CL To _cl_convert(_cl_vec<From, N> a) {
  To r;
  _CL_EACH(N) r.v[i] = _cl_convert<typename To::element, SAT, R>(a.v[i]);
  return r;
}

// Numbers that are no numbers, known at compile time.
constexpr _CL float _cl___builtin_inff() { return __builtin_bit_cast(float, 0x7f800000); }
constexpr _CL float _cl___builtin_huge_valf() { return __builtin_bit_cast(float, 0x7f800000); }
constexpr _CL double _cl___builtin_inf() { return __builtin_bit_cast(double, 0x7ff0000000000000l); }
constexpr _CL double _cl___builtin_nan(const char *) { return __builtin_bit_cast(double, 0x7ff8000000000000l); }
constexpr _CL double _cl___builtin_huge_val() { return __builtin_bit_cast(double, 0x7ff0000000000000l); }
constexpr _CL float _cl___builtin_nanf(const char *) { return __builtin_bit_cast(float, 0x7fc00000); }
