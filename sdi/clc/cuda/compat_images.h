
// Part 4: images and samplers over linear bytes: rows of pixels, planes of rows.
// Source: OpenCL C 3.0 specification, sections 6.15.15 (functions, conversions), 8 (addressing, filtering).

// _cl_image and the API's numbers (_CL_...) are put before this text.  With _CL_FILTERS, where there are no texture
// objects, kernels filter 2D images as they do others.  Layers of a 1D array are rows, those of a 2D
// array planes.
// The format: channels, and what orders and types differ in.
#define _CL_FORM(order, type, channels) (((order) & 255) << 12 | ((type) & 255) << 4 | (channels))
#define _CL_ORDER(form) ((_CL_R & ~255) | (int)((form) >> 12))
#define _CL_TYPE(form) ((_CL_R & ~255) | (int)((form) >> 4 & 255))
#define _CL_RGBA_UNORM8 _CL_FORM(_CL_RGBA, _CL_UNORM_INT8, 4)
#define _CL_RGBA_FLOAT _CL_FORM(_CL_RGBA, _CL_FLOAT, 4)
#define _CL_R_FLOAT _CL_FORM(_CL_R, _CL_FLOAT, 1)
typedef unsigned _cl_sampler;  // the bits of CLK_...: 1 normalized, 14 addressing, 32 linear
#define _CL_IS(name, ...) template<int K> struct _cl_##name { static constexpr bool value = __VA_ARGS__; };
_CL_IS(is_3d, K == _CL_IMAGE3D) _CL_IS(is_1d_array, K == _CL_IMAGE1D_ARRAY)
_CL_IS(has_planes, K == _CL_IMAGE3D || K == _CL_IMAGE2D_ARRAY)
_CL_IS(has_rows, K != _CL_IMAGE1D && K != _CL_IMAGE1D_BUFFER)
// Whether the second coordinate is a place in space; else it is a layer, or not there.
_CL_IS(has_y, K != _CL_IMAGE1D && K != _CL_IMAGE1D_ARRAY && K != _CL_IMAGE1D_BUFFER)

// Colors from the channels of a pixel, and back.
template<class T> _CL _cl_vec<T, 4> _cl_rgba(T r, T g, T b, T a) { return _cl_vec<T, 4>{{r, g, b, a}}; }
// Without branches: what reads several pixels need not wait for each.
template<class T> _CL T _cl_picked(_cl_vec<T, 4> c, unsigned pick) {
  const T low = pick & 1 ? c.v[1] : c.v[0], high = pick & 1 ? c.v[3] : c.v[2], none = pick & 1 ? (T)1 : (T)0;
  return pick & 4 ? none : pick & 2 ? high : low;
}
template<class T> _CL _cl_vec<T, 4> _cl_color(_cl_vec<T, 4> c, unsigned picks) {
  return _cl_rgba(_cl_picked(c, picks), _cl_picked(c, picks >> 4), _cl_picked(c, picks >> 8), _cl_picked(c, picks >> 12));
}
template<class T> _CL _cl_vec<T, 4> _cl_channels(_cl_vec<T, 4> c, int order) {
  const T r = c.v[0], g = c.v[1], b = c.v[2], a = c.v[3];
  switch (order) {
    case _CL_A: return _cl_rgba(a, a, a, a);
    case _CL_RA: return _cl_rgba(r, a, a, a);
    case _CL_BGRA: return _cl_rgba(b, g, r, a);
    case _CL_ARGB: return _cl_rgba(a, r, g, b);
    case _CL_ABGR: return _cl_rgba(a, b, g, r);
    default: return c;
  }
}
// The channels of a pixel as they are stored; those it lacks are 0.
template<class T> _CL _cl_vec<T, 4> _cl_stored(const unsigned char *p, int channels) {
  _cl_vec<T, 4> r{};
  if (channels == 4) r = *(const _cl_vec<T, 4> *)p;
  else if (channels == 2) {
    const _cl_vec<T, 2> a = *(const _cl_vec<T, 2> *)p;
    r.v[0] = a.v[0];
    r.v[1] = a.v[1];
  } else r.v[0] = *(const T *)p;
  return r;
}
template<class T> _CL void _cl_store_channels(unsigned char *p, int channels, _cl_vec<T, 4> c) {
  if (channels == 4) *(_cl_vec<T, 4> *)p = c;
  else if (channels == 2) *(_cl_vec<T, 2> *)p = _cl_vec<T, 2>{{c.v[0], c.v[1]}};
  else *(T *)p = c.v[0];
}
template<class To, class From> _CL _cl_vec<To, 4> _cl_each(_cl_vec<From, 4> c) {
  return _cl_rgba((To)c.v[0], (To)c.v[1], (To)c.v[2], (To)c.v[3]);
}
// Fractions of the largest value; the lowest signed value counts as the one after it.  The reciprocal in two parts
// gives the nearest float, as a division would.
template<class T> _CL _cl_vec<float, 4> _cl_fractions(_cl_vec<T, 4> c, double most) {
  const float part = (float)(1 / most), rest = (float)(1 / most - part);
  _cl_vec<float, 4> r;
  _CL_EACH(4) {
    const float a = (float)c.v[i];
    r.v[i] = __fmaf_rn(a, part, __fmul_rn(a, rest));
    if (!_cl_is_unsigned<T>::value && r.v[i] < -1.0f) r.v[i] = -1.0f;
  }
  return r;
}
template<class T> _CL _cl_vec<T, 4> _cl_whole(_cl_vec<float, 4> c, float most) {
  _cl_vec<T, 4> r;
  const float least = _cl_is_unsigned<T>::value ? 0.0f : -1.0f - most;
  _CL_EACH(4) {
    const float a = __fmul_rn(c.v[i], most);
    r.v[i] = (T)__float2int_rn(fminf(fmaxf(a, least), most));
    if (!_cl_is_unsigned<T>::value && !(a == a)) r.v[i] = 0;
  }
  return r;
}
template<class T, class From> _CL _cl_vec<T, 4> _cl_narrow(_cl_vec<From, 4> c) {
  _cl_vec<T, 4> r;
  _CL_EACH(4) r.v[i] = _cl_to_int<T, true, 0>(c.v[i]);
  return r;
}

// The color of the pixel at p as T: float for normalized and floating types, int or unsigned for others.  The format
// is not known here, but the same for all work-items: usual ones are asked for first, the others are out of the way.
template<class T> static __device__ __noinline__ _cl_vec<T, 4> _cl_any_pixel(const unsigned char *p, unsigned form, unsigned picks) {
  const int channels = form & 15;
  _cl_vec<T, 4> c{};
  if constexpr (_cl_same<T, float>::value) {
    switch (_CL_TYPE(form)) {
      case _CL_SNORM_INT8: c = _cl_fractions(_cl_stored<signed char>(p, channels), 127); break;
      case _CL_SNORM_INT16: c = _cl_fractions(_cl_stored<short>(p, channels), 32767); break;
      case _CL_UNORM_INT8: c = _cl_fractions(_cl_stored<_cl_uchar>(p, channels), 255); break;
      case _CL_UNORM_INT16: c = _cl_fractions(_cl_stored<_cl_ushort>(p, channels), 65535); break;
      case _CL_HALF_FLOAT: c = _cl_each<float>(_cl_stored<_cl_half>(p, channels)); break;
      case _CL_FLOAT: c = _cl_stored<float>(p, channels); break;
    }
  } else {
    switch (_CL_TYPE(form)) {
      case _CL_SIGNED_INT8: c = _cl_each<T>(_cl_stored<signed char>(p, channels)); break;
      case _CL_SIGNED_INT16: c = _cl_each<T>(_cl_stored<short>(p, channels)); break;
      case _CL_UNSIGNED_INT8: c = _cl_each<T>(_cl_stored<_cl_uchar>(p, channels)); break;
      case _CL_UNSIGNED_INT16: c = _cl_each<T>(_cl_stored<_cl_ushort>(p, channels)); break;
      case _CL_SIGNED_INT32: case _CL_UNSIGNED_INT32: c = _cl_stored<T>(p, channels); break;
    }
  }
  return _cl_color(c, picks);
}
template<class T> _CL _cl_vec<T, 4> _cl_pixel(const unsigned char *p, unsigned form, unsigned picks) {
  if constexpr (_cl_same<T, float>::value) {
    if (form == _CL_RGBA_UNORM8) return _cl_fractions(_cl_stored<_cl_uchar>(p, 4), 255);
    if (form == _CL_RGBA_FLOAT) return _cl_stored<float>(p, 4);
    if (form == _CL_R_FLOAT) return _cl_rgba(*(const float *)p, 0.0f, 0.0f, 1.0f);
  } else {
    if (form == _CL_FORM(_CL_RGBA, _CL_UNSIGNED_INT8, 4)) return _cl_each<T>(_cl_stored<_cl_uchar>(p, 4));
    if (form == _CL_FORM(_CL_R, _CL_SIGNED_INT32, 1) || form == _CL_FORM(_CL_R, _CL_UNSIGNED_INT32, 1))
      return _cl_rgba(*(const T *)p, (T)0, (T)0, (T)1);
  }
  return _cl_any_pixel<T>(p, form, picks);
}
template<class T> static __device__ __noinline__ void _cl_set_any_pixel(unsigned char *p, unsigned form, _cl_vec<T, 4> color) {
  const int channels = form & 15;
  const _cl_vec<T, 4> c = _cl_channels(color, _CL_ORDER(form));
  if constexpr (_cl_same<T, float>::value) {
    switch (_CL_TYPE(form)) {
      case _CL_SNORM_INT8: return _cl_store_channels(p, channels, _cl_whole<signed char>(c, 127.0f));
      case _CL_SNORM_INT16: return _cl_store_channels(p, channels, _cl_whole<short>(c, 32767.0f));
      case _CL_UNORM_INT8: return _cl_store_channels(p, channels, _cl_whole<_cl_uchar>(c, 255.0f));
      case _CL_UNORM_INT16: return _cl_store_channels(p, channels, _cl_whole<_cl_ushort>(c, 65535.0f));
      case _CL_HALF_FLOAT: return _cl_store_channels(p, channels, _cl_each<_cl_half>(c));
      case _CL_FLOAT: return _cl_store_channels(p, channels, c);
    }
  } else {
    switch (_CL_TYPE(form)) {
      case _CL_SIGNED_INT8: return _cl_store_channels(p, channels, _cl_narrow<signed char>(c));
      case _CL_SIGNED_INT16: return _cl_store_channels(p, channels, _cl_narrow<short>(c));
      case _CL_UNSIGNED_INT8: return _cl_store_channels(p, channels, _cl_narrow<_cl_uchar>(c));
      case _CL_UNSIGNED_INT16: return _cl_store_channels(p, channels, _cl_narrow<_cl_ushort>(c));
      case _CL_SIGNED_INT32: case _CL_UNSIGNED_INT32: return _cl_store_channels(p, channels, c);
    }
  }
}
template<class T> _CL void _cl_set_pixel(unsigned char *p, unsigned form, _cl_vec<T, 4> c) {
  if constexpr (_cl_same<T, float>::value) {
    if (form == _CL_RGBA_UNORM8) return _cl_store_channels(p, 4, _cl_whole<_cl_uchar>(c, 255.0f));
    if (form == _CL_RGBA_FLOAT) return _cl_store_channels(p, 4, c);
    if (form == _CL_R_FLOAT) return _cl_store_channels(p, 1, c);
  }
  _cl_set_any_pixel(p, form, c);
}

// Coordinates: x, y, z, those that are not given 0.
template<class C> struct _cl_place { C x, y, z; };
_CL _cl_place<int> _cl_place_of(int c) { return {c, 0, 0}; }
_CL _cl_place<float> _cl_place_of(float c) { return {c, 0, 0}; }
template<class C> _CL _cl_place<C> _cl_place_of(_cl_vec<C, 2> c) { return {c.v[0], c.v[1], (C)0}; }
template<class C> _CL _cl_place<C> _cl_place_of(_cl_vec<C, 4> c) { return {c.v[0], c.v[1], c.v[2]}; }
_CL int _cl_within(int i, int size) {
  const int j = i < size - 1 ? i : size - 1;
  return j > 0 ? j : 0;
}
// What is too large, and what is no number, is some number.
_CL int _cl_floor_of(float u) { return __float2int_rd(u); }

template<int K> _CL bool _cl_is_in(const _cl_image<K> &m, int x, int y, int z) {
  return (unsigned)x < (unsigned)m.width && (!_cl_has_rows<K>::value || (unsigned)y < (unsigned)m.rows) &&
    (!_cl_has_planes<K>::value || (unsigned)z < (unsigned)m.planes);
}
template<int K> _CL unsigned char *_cl_pixel_at(const _cl_image<K> &m, int x, int y, int z) {
  unsigned char *p = m.pixels + (unsigned long)(unsigned)x * m.pixel_nbytes;
  if constexpr (_cl_has_rows<K>::value) p += (unsigned long)(unsigned)y * m.row_pitch;
  if constexpr (_cl_has_planes<K>::value) p += (unsigned long)(unsigned)z * m.plane_pitch;
  return p;
}
// Only with CLK_ADDRESS_CLAMP may a place be outside: its channels are 0.
template<class T, int K> _CL _cl_vec<T, 4> _cl_fetch(const _cl_image<K> &m, bool clamps, int x, int y, int z) {
  if (clamps && !_cl_is_in(m, x, y, z)) return _cl_color(_cl_vec<T, 4>{}, m.picks);
  return _cl_pixel<T>(_cl_pixel_at(m, x, y, z), m.form, m.picks);
}
template<class T, int K> _CL _cl_vec<T, 4> _cl_read(const _cl_image<K> &m, _cl_sampler s, _cl_place<int> at) {
  const bool clamps = (s & 14) == 4;  // what modes but these two do is undefined
  if (!clamps) at.x = _cl_within(at.x, m.width);
  if (!clamps || !_cl_has_y<K>::value) at.y = _cl_within(at.y, m.rows);
  if (!clamps || !_cl_is_3d<K>::value) at.z = _cl_within(at.z, m.planes);
  return _cl_fetch<T>(m, clamps, at.x, at.y, at.z);
}

// The two pixels around a coordinate and how much the second counts; without a linear filter both are one.
struct _cl_pair { int i, j; float a; };
_CL _cl_pair _cl_pair_at(float c, int size, _cl_sampler s, bool linear) {
  const unsigned mode = s & 14;
  const float w = (float)size;
  float u = s & 1 ? __fmul_rn(c, w) : c;
  if (mode == 6) u = __fmul_rn(c - floorf(c), w);
  if (mode == 8) u = __fmul_rn(fabsf(c - 2.0f * rintf(0.5f * c)), w);
  const float v = linear ? fminf(u - 0.5f, 1e9f) : u;
  int i = _cl_floor_of(v), j = linear ? i + 1 : i;
  if (mode == 6) {
    if (i < 0) i += size;
    if (i >= size) i -= size;
    if (j >= size) j -= size;
  }
  if (mode != 4) {
    i = _cl_within(i, size);
    j = _cl_within(j, size);
  }
  return {i, j, linear ? v - floorf(v) : 0.0f};
}
_CL _cl_vec<float, 4> _cl_between(_cl_vec<float, 4> p, _cl_vec<float, 4> q, float a) {
  _CL_EACH(4) p.v[i] = (1.0f - a) * p.v[i] + a * q.v[i];
  return p;
}
#ifndef _CL_FILTERS
// What the hardware filters: the channels of a pixel as they are stored, those around the image 0.
_CL _cl_vec<float, 4> _cl_filtered(unsigned texture, float x, float y) {
  _cl_vec<float, 4> r;
  asm("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
    : "=f"(r.v[0]), "=f"(r.v[1]), "=f"(r.v[2]), "=f"(r.v[3]) : "l"((unsigned long)texture), "f"(x), "f"(y));
  return r;
}
// See texture_of in sdi/wire/kernels.py.
template<int K> _CL unsigned _cl_texture_of(const _cl_image<K> &m, _cl_sampler s) {
  const unsigned mode = s & 14, wraps = mode > 4 ? mode / 2 - 1 : mode == 4;
  return m.textures[s & 1 ? 2 + wraps : wraps == 1];
}
#endif
template<class T, int K> _CL _cl_vec<T, 4> _cl_read(const _cl_image<K> &m, _cl_sampler s, _cl_place<float> at) {
#ifndef _CL_FILTERS
  if constexpr (_cl_same<T, float>::value && K == _CL_IMAGE2D) if (s & 32)
    return _cl_color(_cl_filtered(_cl_texture_of(m, s), at.x, at.y), m.picks);
#endif
  constexpr bool has_y = _cl_has_y<K>::value, has_z = _cl_is_3d<K>::value;
  const bool linear = _cl_same<T, float>::value && (s & 32), clamps = (s & 14) == 4;
  const _cl_pair x = _cl_pair_at(at.x, m.width, s, linear);
  const int row = has_y ? 0 : _cl_within(_cl_floor_of(rintf(at.y)), m.rows);
  const int plane = has_z ? 0 : _cl_within(_cl_floor_of(rintf(at.z)), m.planes);
  const _cl_pair y = has_y ? _cl_pair_at(at.y, m.rows, s, linear) : _cl_pair{row, row, 0.0f};
  const _cl_pair z = has_z ? _cl_pair_at(at.z, m.planes, s, linear) : _cl_pair{plane, plane, 0.0f};
  if constexpr (_cl_same<T, float>::value) if (linear) {
    _cl_vec<float, 4> r = _cl_between(_cl_fetch<T>(m, clamps, x.i, y.i, z.i), _cl_fetch<T>(m, clamps, x.j, y.i, z.i), x.a);
    if constexpr (has_y)
      r = _cl_between(r, _cl_between(_cl_fetch<T>(m, clamps, x.i, y.j, z.i), _cl_fetch<T>(m, clamps, x.j, y.j, z.i), x.a), y.a);
    if constexpr (has_z) {
      const _cl_vec<float, 4> p = _cl_between(_cl_fetch<T>(m, clamps, x.i, y.i, z.j), _cl_fetch<T>(m, clamps, x.j, y.i, z.j), x.a);
      const _cl_vec<float, 4> q = _cl_between(_cl_fetch<T>(m, clamps, x.i, y.j, z.j), _cl_fetch<T>(m, clamps, x.j, y.j, z.j), x.a);
      r = _cl_between(r, _cl_between(p, q, y.a), z.a);
    }
    return r;
  }
  return _cl_fetch<T>(m, clamps, x.i, y.i, z.i);
}
// Writes outside change nothing.
template<class T, int K> _CL void _cl_write(const _cl_image<K> &m, _cl_place<int> at, _cl_vec<T, 4> c) {
  if (!_cl_is_in(m, at.x, at.y, at.z)) return;
  _cl_set_pixel(_cl_pixel_at(m, at.x, at.y, at.z), m.form, c);
}

#define _CL_IMAGE_OF(suffix, T) \
  template<int K, class C> _CL _cl_vec<T, 4> _cl_read_image##suffix(const _cl_image<K> &m, C at) { \
    return _cl_read<T>(m, 0, _cl_place_of(at)); \
  } \
  template<int K, class C> _CL _cl_vec<T, 4> _cl_read_image##suffix(const _cl_image<K> &m, _cl_sampler s, C at) { \
    return _cl_read<T>(m, s, _cl_place_of(at)); \
  } \
  template<int K, class C> _CL void _cl_write_image##suffix(const _cl_image<K> &m, C at, _cl_vec<T, 4> c) { \
    _cl_write<T>(m, _cl_place_of(at), c); \
  }
_CL_IMAGE_OF(f, float) _CL_IMAGE_OF(i, int) _CL_IMAGE_OF(ui, unsigned)
template<int K, class... C> _CL _cl_vec<_cl_half, 4> _cl_read_imageh(const _cl_image<K> &m, C... at) {
  return _cl_each<_cl_half>(_cl_read_imagef(m, at...));
}
template<int K, class C> _CL void _cl_write_imageh(const _cl_image<K> &m, C at, _cl_vec<_cl_half, 4> c) {
  _cl_write_imagef(m, at, _cl_each<float>(c));
}
template<int K> _CL int _cl_get_image_width(const _cl_image<K> &m) { return m.width; }
template<int K> _CL int _cl_get_image_height(const _cl_image<K> &m) { return m.rows; }
template<int K> _CL int _cl_get_image_depth(const _cl_image<K> &m) { return m.planes; }
template<int K> _CL int _cl_get_image_channel_data_type(const _cl_image<K> &m) { return _CL_TYPE(m.form); }
template<int K> _CL int _cl_get_image_channel_order(const _cl_image<K> &m) { return _CL_ORDER(m.form); }
template<int K> _CL _cl_size _cl_get_image_array_size(const _cl_image<K> &m) {
  return _cl_is_1d_array<K>::value ? m.rows : m.planes;
}
template<int K> _CL auto _cl_get_image_dim(const _cl_image<K> &m) {
  if constexpr (_cl_is_3d<K>::value) return _cl_vec<int, 4>{{m.width, m.rows, m.planes, 0}};
  else return _cl_vec<int, 2>{{m.width, m.rows}};
}
