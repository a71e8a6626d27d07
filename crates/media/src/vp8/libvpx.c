/* What `raw.rs` needs of libvpx, by functions whose arguments have no layout of libvpx's own: the headers of the libvpx that
 * is installed say how its structures and macros look, so that any version since 1.8 will do. */

#include <stdint.h>
#include <stdlib.h>
#include <vpx/vp8cx.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>
#include <vpx/vpx_encoder.h>

typedef struct {
  vpx_codec_ctx_t codec;
  vpx_codec_enc_cfg_t config;
  vpx_image_t image;
} framewire_vp8_encoder;

/* One coded frame, in libvpx's memory; no bytes if there is none. */
typedef struct {
  const uint8_t *bytes;
  size_t length;
  int key;
  int quantiser;
} framewire_vp8_frame;

/* One decoded picture (I420), in libvpx's memory; no planes if there is none. */
typedef struct {
  const uint8_t *planes[3];
  size_t strides[3];
  size_t width;
  size_t height;
} framewire_vp8_picture;

const char *framewire_vp8_error(int code) { return vpx_codec_err_to_string((vpx_codec_err_t)code); }

/* WebRTC's settings (libwebrtc, modules/video_coding/codecs/vp8/libvpx_vp8_encoder.cc). */
static void configure(vpx_codec_enc_cfg_t *config, unsigned width, unsigned height, unsigned ticks, unsigned kbps,
                      unsigned threads, unsigned drop) {
  config->g_w = width;
  config->g_h = height;
  config->g_timebase.num = 1;
  config->g_timebase.den = (int)ticks;
  config->g_threads = threads;
  config->g_pass = VPX_RC_ONE_PASS;
  config->g_lag_in_frames = 0;
  config->g_error_resilient = VPX_ERROR_RESILIENT_DEFAULT;
  config->kf_mode = VPX_KF_DISABLED;
  config->rc_end_usage = VPX_CBR;
  config->rc_target_bitrate = kbps;
  config->rc_dropframe_thresh = drop;
  config->rc_resize_allowed = 0;
  config->rc_min_quantizer = 2;
  config->rc_max_quantizer = 56;
  config->rc_undershoot_pct = 100;
  config->rc_overshoot_pct = 15;
  config->rc_buf_initial_sz = 500;
  config->rc_buf_optimal_sz = 600;
  config->rc_buf_sz = 1000;
}

static int tune(vpx_codec_ctx_t *codec, int speed) {
  int code = vpx_codec_control(codec, VP8E_SET_CPUUSED, -speed);
  code = code ? code : (int)vpx_codec_control(codec, VP8E_SET_STATIC_THRESHOLD, 1);
  code = code ? code : (int)vpx_codec_control(codec, VP8E_SET_NOISE_SENSITIVITY, 0);
  return code ? code : (int)vpx_codec_control(codec, VP8E_SET_TOKEN_PARTITIONS, VP8_ONE_TOKENPARTITION);
}

void framewire_vp8_encoder_close(framewire_vp8_encoder *encoder) {
  vpx_codec_destroy(&encoder->codec);
  free(encoder);
}

int framewire_vp8_encoder_open(framewire_vp8_encoder **out, unsigned width, unsigned height, unsigned ticks, unsigned kbps,
                               unsigned threads, unsigned speed, unsigned drop) {
  framewire_vp8_encoder *encoder = calloc(1, sizeof *encoder);
  if (!encoder) return VPX_CODEC_MEM_ERROR;
  int code = vpx_codec_enc_config_default(vpx_codec_vp8_cx(), &encoder->config, 0);
  if (!code) {
    configure(&encoder->config, width, height, ticks, kbps, threads, drop);
    code = vpx_codec_enc_init(&encoder->codec, vpx_codec_vp8_cx(), &encoder->config, 0);
  }
  if (code) {
    free(encoder);
    return code;
  }
  code = tune(&encoder->codec, (int)speed);
  /* The planes are put in with each picture; until then they point nowhere that is read. */
  static unsigned char nowhere[1];
  if (!code && !vpx_img_wrap(&encoder->image, VPX_IMG_FMT_I420, width, height, 1, nowhere)) code = VPX_CODEC_INVALID_PARAM;
  if (code) {
    framewire_vp8_encoder_close(encoder);
    return code;
  }
  *out = encoder;
  return VPX_CODEC_OK;
}

int framewire_vp8_encoder_rate(framewire_vp8_encoder *encoder, unsigned kbps) {
  encoder->config.rc_target_bitrate = kbps;
  return vpx_codec_enc_config_set(&encoder->codec, &encoder->config);
}

/* Largest key frame, in percent of an average frame. */
int framewire_vp8_encoder_key_limit(framewire_vp8_encoder *encoder, unsigned percent) {
  return vpx_codec_control(&encoder->codec, VP8E_SET_MAX_INTRA_BITRATE_PCT, percent);
}

/* Predicted from one reference alone (0: the last frame, 1: the golden, 2: the alternate one), in place of one of these
 * (1, 2) or of none (0) and of the last frame, with the probabilities that the key frame left. */
static vpx_enc_frame_flags_t references(int from, int replaces) {
  vpx_enc_frame_flags_t flags = VP8_EFLAG_NO_UPD_ENTROPY;
  if (from != 0) flags |= VP8_EFLAG_NO_REF_LAST;
  if (from != 1) flags |= VP8_EFLAG_NO_REF_GF;
  if (from != 2) flags |= VP8_EFLAG_NO_REF_ARF;
  flags |= replaces == 1 ? VP8_EFLAG_FORCE_GF : VP8_EFLAG_NO_UPD_GF;
  flags |= replaces == 2 ? VP8_EFLAG_FORCE_ARF : VP8_EFLAG_NO_UPD_ARF;
  return flags;
}

/* `planes` are as large as the encoder's pictures, without padding, and only read. `from` is negative where references
 * are libvpx's own business. */
int framewire_vp8_encode(framewire_vp8_encoder *encoder, const uint8_t *const planes[3], int64_t at, unsigned long ticks,
                         int key, int from, int replaces, framewire_vp8_frame *out) {
  for (int plane = 0; plane < 3; plane++) encoder->image.planes[plane] = (uint8_t *)planes[plane];
  vpx_enc_frame_flags_t flags = key ? VPX_EFLAG_FORCE_KF : from < 0 ? 0 : references(from, replaces);
  int code = vpx_codec_encode(&encoder->codec, &encoder->image, at, ticks, flags, VPX_DL_REALTIME);
  if (code) return code;
  vpx_codec_iter_t position = NULL;
  const vpx_codec_cx_pkt_t *packet;
  while ((packet = vpx_codec_get_cx_data(&encoder->codec, &position))) {
    if (packet->kind != VPX_CODEC_CX_FRAME_PKT) continue;
    out->bytes = packet->data.frame.buf;
    out->length = packet->data.frame.sz;
    out->key = (packet->data.frame.flags & VPX_FRAME_IS_KEY) != 0;
    return vpx_codec_control(&encoder->codec, VP8E_GET_LAST_QUANTIZER, &out->quantiser);
  }
  return VPX_CODEC_OK;
}

void framewire_vp8_decoder_close(vpx_codec_ctx_t *codec) {
  vpx_codec_destroy(codec);
  free(codec);
}

int framewire_vp8_decoder_open(vpx_codec_ctx_t **out) {
  vpx_codec_ctx_t *codec = calloc(1, sizeof *codec);
  if (!codec) return VPX_CODEC_MEM_ERROR;
  int code = vpx_codec_dec_init(codec, vpx_codec_vp8_dx(), NULL, 0);
  if (code) {
    free(codec);
    return code;
  }
  *out = codec;
  return VPX_CODEC_OK;
}

int framewire_vp8_decode(vpx_codec_ctx_t *codec, const uint8_t *bytes, unsigned length, framewire_vp8_picture *out) {
  int code = vpx_codec_decode(codec, bytes, length, NULL, 0);
  if (code) return code;
  vpx_codec_iter_t position = NULL;
  const vpx_image_t *image = vpx_codec_get_frame(codec, &position);
  if (!image) return VPX_CODEC_OK;
  /* Damage that was papered over. */
  int corrupted = 0;
  code = vpx_codec_control(codec, VP8D_GET_FRAME_CORRUPTED, &corrupted);
  if (code || corrupted) return code ? code : VPX_CODEC_CORRUPT_FRAME;
  if (image->fmt != VPX_IMG_FMT_I420 || image->stride[0] < 0 || image->stride[1] < 0 || image->stride[2] < 0) {
    return VPX_CODEC_UNSUP_BITSTREAM;
  }
  for (int plane = 0; plane < 3; plane++) {
    out->planes[plane] = image->planes[plane];
    out->strides[plane] = (size_t)image->stride[plane];
  }
  out->width = image->d_w;
  out->height = image->d_h;
  return VPX_CODEC_OK;
}
