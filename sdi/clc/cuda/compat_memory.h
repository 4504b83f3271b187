
// Part 3: work-items, barriers, vector loads and stores, asynchronous copies, atomics.
// Source: OpenCL C 3.0 specification, sections 6.15.1, 6.15.7 to 6.15.12.

// The native geometry.  A grid whose y or z CUDA does not allow is launched in x alone: _CL_FLAT.
_CL unsigned _cl_pick(unsigned d, unsigned x, unsigned y, unsigned z, unsigned past) {
  return d == 0 ? x : d == 1 ? y : d == 2 ? z : past;
}
_CL _cl_size _cl_get_local_id(unsigned d) { return _cl_pick(d, threadIdx.x, threadIdx.y, threadIdx.z, 0); }
_CL _cl_size _cl_get_local_size(unsigned d) { return _cl_pick(d, blockDim.x, blockDim.y, blockDim.z, 1); }
_CL _cl_size _cl_get_enqueued_local_size(unsigned d) { return _cl_get_local_size(d); }
_CL _cl_size _cl_get_local_linear_id() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
_CL _cl_size _cl_get_global_offset(unsigned) { return 0; }
_CL unsigned _cl_get_work_dim(const _cl_grid &g) { return g.work_dim; }
_CL _cl_size _cl_get_num_groups(const _cl_grid &g, unsigned d) {
  return _cl_pick(d, g.groups[0], g.groups[1], g.groups[2], 1);
}
_CL _cl_size _cl_get_group_id(const _cl_grid &g, unsigned d) {
#ifdef _CL_FLAT
  const unsigned b = blockIdx.x, row = b / g.groups[0];
  return _cl_pick(d, b % g.groups[0], row % g.groups[1], row / g.groups[1], 0);
#else
  return _cl_pick(d, blockIdx.x, blockIdx.y, blockIdx.z, 0);
#endif
}
_CL _cl_size _cl_get_global_size(const _cl_grid &g, unsigned d) {
  return _cl_get_num_groups(g, d) * _cl_get_local_size(d);
}
_CL _cl_size _cl_get_global_id(const _cl_grid &g, unsigned d) {
  return _cl_get_group_id(g, d) * _cl_get_local_size(d) + _cl_get_local_id(d);
}
_CL _cl_size _cl_box_global_id(const _cl_grid &g, unsigned d) {
  return d < 3 ? g.base[d] + _cl_get_global_id(g, d) : 0;
}
_CL _cl_size _cl_get_global_linear_id(const _cl_grid &g) {
  return (_cl_get_global_id(g, 2) * _cl_get_global_size(g, 1) + _cl_get_global_id(g, 1)) * _cl_get_global_size(g, 0) + _cl_get_global_id(g, 0);
}

_CL void _cl_barrier(unsigned) { __syncthreads(); }
_CL void _cl_work_group_barrier(unsigned, int = 1) { __syncthreads(); }
// The language orders for the work-group alone.  One of global memory alone orders for the GPU, as programs before
// OpenCL 2.0 may hand results to other groups behind it; one of both, as NVIDIA's own has it, does not: it takes
// as long as atomics before it.
_CL void _cl_mem_fence(unsigned flags) { if ((flags & 3) == 2) __threadfence(); else __threadfence_block(); }
_CL void _cl_read_mem_fence(unsigned flags) { _cl_mem_fence(flags); }
_CL void _cl_write_mem_fence(unsigned flags) { _cl_mem_fence(flags); }
_CL void _cl_atomic_work_item_fence(unsigned, int order, int scope) {
  if (order == 0 || scope == 0) return;
  if (scope == 1) __threadfence_block(); else if (scope == 3) __threadfence_system(); else __threadfence();
}

// Vector loads and stores need the alignment of the element only.
template<int N, class T> _CL auto _cl_vload(_cl_size at, const T *p) {
  _cl_vec<typename _cl_bare<T>::type, N> r;
  _CL_EACH(N) r.v[i] = p[at * N + i];
  return r;
}
template<class T, int N> _CL void _cl_vstore(_cl_vec<T, N> a, _cl_size at, T *p) {
  _CL_EACH(N) p[at * N + i] = a.v[i];
}
template<int N> _CL auto _cl_half_load(_cl_size at, const _cl_half *p) {
  if constexpr (N == 1) return (float)p[at];
  else {
    _cl_vec<float, N> r;
    _CL_EACH(N) r.v[i] = (float)p[at + i];
    return r;
  }
}
template<int N> _CL auto _cl_vload_half(_cl_size at, const _cl_half *p) { return _cl_half_load<N>(at * N, p); }
template<int N> _CL auto _cl_vloada_half(_cl_size at, const _cl_half *p) {
  return _cl_half_load<N>(at * (N == 3 ? 4 : N), p);
}
template<int R, class T> _CL void _cl_vstore_half(T a, _cl_size at, _cl_half *p) { p[at] = _cl_to_half<R>(a); }
template<int R, class T, int N> _CL void _cl_vstore_half(_cl_vec<T, N> a, _cl_size at, _cl_half *p) {
  _CL_EACH(N) p[at * N + i] = _cl_to_half<R>(a.v[i]);
}
template<int R, class T> _CL void _cl_vstorea_half(T a, _cl_size at, _cl_half *p) { p[at] = _cl_to_half<R>(a); }
template<int R, class T, int N> _CL void _cl_vstorea_half(_cl_vec<T, N> a, _cl_size at, _cl_half *p) {
  _CL_EACH(N) p[at * (N == 3 ? 4 : N) + i] = _cl_to_half<R>(a.v[i]);
}

// All work-items of the group copy together; waiting is a barrier.
_CL unsigned _cl_group_items() { return blockDim.x * blockDim.y * blockDim.z; }
template<class T> _CL _cl_event _cl_async_work_group_copy(T *to, const T *from, _cl_size count, _cl_event e) {
  for (_cl_size i = _cl_get_local_linear_id(); i < count; i += _cl_group_items()) to[i] = from[i];
  return e;
}
// The strided side is the one in global memory.
template<class T> _CL _cl_event _cl_async_work_group_strided_copy(T *to, const T *from, _cl_size count, _cl_size stride, _cl_event e) {
  const bool to_local = __isShared(to);
  for (_cl_size i = _cl_get_local_linear_id(); i < count; i += _cl_group_items()) {
    if (to_local) to[i] = from[i * stride]; else to[i * stride] = from[i];
  }
  return e;
}
_CL void _cl_wait_group_events(int, const void *) { __syncthreads(); }
template<class T> _CL void _cl_prefetch(const T *, _cl_size) {}

// Atomics by 32 and 64 bits.  atomic_inc adds 1: CUDA's atomicInc would wrap at a bound.
template<class T> using _cl_word = typename _cl_if<sizeof(T) == 8, unsigned long long, unsigned>::type;
template<class T> using _cl_signed_word = typename _cl_if<sizeof(T) == 8, long long, int>::type;
template<class T> using _cl_plain = typename _cl_bare<T>::type;
template<class P> struct _cl_pointee;
template<class T> struct _cl_pointee<T *> { typedef typename _cl_bare<T>::type type; };
#define _CL_ATOMIC(name, call) \
  template<class T, class U> _CL auto name(T *p, U value) { \
    typedef _cl_plain<T> V; \
    typedef _cl_word<V> W; \
    W *w = (W *)p; \
    const W a = __builtin_bit_cast(W, (V)value); \
    (void)w; \
    return __builtin_bit_cast(V, (W)(call)); \
  }
#define _CL_SIGNED(f) \
  (_cl_is_unsigned<V>::value ? f(w, a) : (W)f((_cl_signed_word<V> *)w, (_cl_signed_word<V>)a))
_CL_ATOMIC(_cl_atomic_add, atomicAdd(w, a)) _CL_ATOMIC(_cl_atomic_sub, atomicAdd(w, (W)0 - a))
_CL_ATOMIC(_cl_atomic_xchg, atomicExch(w, a)) _CL_ATOMIC(_cl_atomic_and, atomicAnd(w, a))
_CL_ATOMIC(_cl_atomic_or, atomicOr(w, a)) _CL_ATOMIC(_cl_atomic_xor, atomicXor(w, a))
_CL_ATOMIC(_cl_atomic_min, _CL_SIGNED(atomicMin)) _CL_ATOMIC(_cl_atomic_max, _CL_SIGNED(atomicMax))
template<class T> _CL auto _cl_atomic_inc(T *p) { return _cl_atomic_add(p, 1); }
template<class T> _CL auto _cl_atomic_dec(T *p) { return _cl_atomic_sub(p, 1); }
template<class T, class U> _CL auto _cl_atomic_cmpxchg(T *p, U compare, U value) {
  typedef _cl_word<_cl_plain<T>> W;
  return (_cl_plain<T>)atomicCAS((W *)p, (W)(_cl_plain<T>)compare, (W)(_cl_plain<T>)value);
}

// Atomics of OpenCL C 2.0: fences around a relaxed operation give the order asked for.
_CL void _cl_order(int order) { if (order) __threadfence(); }
#define _CL_FETCH(name, base) \
  template<class T, class U> _CL auto name(T *p, U value, int order = 5, int = 2) { \
    _cl_order(order); \
    auto r = base(p, value); \
    _cl_order(order); \
    return r; \
  }
_CL_FETCH(_cl_atomic_fetch_add, _cl_atomic_add) _CL_FETCH(_cl_atomic_fetch_sub, _cl_atomic_sub)
_CL_FETCH(_cl_atomic_fetch_and, _cl_atomic_and) _CL_FETCH(_cl_atomic_fetch_or, _cl_atomic_or)
_CL_FETCH(_cl_atomic_fetch_xor, _cl_atomic_xor) _CL_FETCH(_cl_atomic_fetch_min, _cl_atomic_min)
_CL_FETCH(_cl_atomic_fetch_max, _cl_atomic_max) _CL_FETCH(_cl_atomic_exchange, _cl_atomic_xchg)
template<class T, class U> _CL void _cl_atomic_store(T *p, U value, int order = 5, int = 2) {
  _cl_order(order);
  *(volatile _cl_plain<T> *)p = (_cl_plain<T>)value;
  if (order == 5) __threadfence();
}
template<class T> _CL auto _cl_atomic_load(T *p, int order = 5, int = 2) {
  if (order == 5) __threadfence();
  _cl_plain<T> r = *(volatile _cl_plain<T> *)p;
  _cl_order(order);
  return r;
}
template<class T> _CL bool _cl_atomic_flag_test_and_set(T *p, int order = 5, int = 2) {
  _cl_order(order);
  const bool was = _cl_atomic_xchg(p, 1) != 0;
  _cl_order(order);
  return was;
}
template<class T> _CL void _cl_atomic_flag_clear(T *p, int order = 5, int scope = 2) { _cl_atomic_store(p, 0, order, scope); }
template<class T, class U> _CL void _cl_atomic_init(T *p, U value) { *(volatile _cl_plain<T> *)p = (_cl_plain<T>)value; }
template<class T, class U, class E> _CL bool _cl_atomic_compare_exchange_strong(T *p, E *expected, U value, int success = 5, int = 5, int = 2) {
  _cl_order(success);
  _cl_plain<T> wanted = *expected, found = _cl_atomic_cmpxchg(p, wanted, (_cl_plain<T>)value);
  _cl_order(success);
  if (found == wanted) return true;
  *expected = found;
  return false;
}
template<class T, class U, class E> _CL bool _cl_atomic_compare_exchange_weak(T *p, E *expected, U value, int success = 5, int failure = 5, int scope = 2) {
  return _cl_atomic_compare_exchange_strong(p, expected, value, success, failure, scope);
}
