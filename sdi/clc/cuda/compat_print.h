
// Part 5, for programs that print: calls of printf as records in a buffer, which the host formats.
// Source: OpenCL C 3.0 specification, section 6.15.14.

// A record: its bytes (a multiple of 8; 0 ends the buffer), the number of the format, then 8 bytes for each scalar
// and each element of a vector: integers with their sign, floating-point numbers as doubles.  A string is its
// length (all bits set: a null pointer), then its bytes.
extern "C" { __device__ _cl_print *sdi_print = 0; }
struct _cl_text { const char *bytes; unsigned long count; };
_CL _cl_text _cl_text_of(const char *p) {
  _cl_text t{p, p ? 0 : ~0ul};
  while (p && p[t.count]) t.count++;
  return t;
}
template<class T> _CL unsigned long _cl_print_nbytes(const T &) { return 8; }
template<class T, int N> _CL unsigned long _cl_print_nbytes(const _cl_vec<T, N> &) { return 8 * N; }
_CL unsigned long _cl_print_nbytes(const _cl_text &t) { return 8 + (t.bytes ? (t.count + 7) & ~7ul : 0); }
template<class T> _CL void _cl_print_put(char *&to, T a) {
  if constexpr (_cl_is_float<T>::value) *(double *)to = (double)a;
  else *(unsigned long *)to = (unsigned long)a;
  to += 8;
}
template<class T, int N> _CL void _cl_print_put(char *&to, _cl_vec<T, N> a) {
  _CL_EACH(N) _cl_print_put(to, a.v[i]);
}
_CL void _cl_print_put(char *&to, _cl_text t) {
  *(unsigned long *)to = t.count;
  to += 8;
  if (!t.bytes) return;
  for (unsigned long i = 0; i < t.count; i++) to[i] = t.bytes[i];
  to += (t.count + 7) & ~7ul;
}
template<class... A> static __device__ __noinline__ int _cl_printf(unsigned format, A... a) {
  const unsigned long nbytes = (8 + ... + _cl_print_nbytes(a));
  const unsigned long at = atomicAdd(&sdi_print->used, (unsigned long long)nbytes);
  char *to = (char *)(sdi_print + 1) + at;
  if (at + nbytes > sdi_print->capacity) {
    if (at + 8 <= sdi_print->capacity) *(unsigned long *)to = 0;
    atomicAdd(&sdi_print->lost, 1ull);
    return -1;
  }
  ((unsigned *)to)[0] = (unsigned)nbytes;
  ((unsigned *)to)[1] = format;
  to += 8;
  (_cl_print_put(to, a), ...);
  return 0;
}
