// Finds the format, lets its decoder fill the pixels, and brings them upright and to the wanted channels.

#include "data/images/decode.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/module.h"
#include "data/images/codecs/codec.h"
#include "data/images/grey.h"
#include "data/images/upright.h"
#include "formats/netpbm.h"
#include "formats/wav.h"

namespace mlx::data {
namespace {

const ImagesModule& images_module() {
  static std::string problem;
  static const ImagesModule* const module = functions_of<ImagesModule>("mlx_images", kImagesModuleVersion, problem);
  if (!module) {
    throw Error(ErrorKind::kMissing, "the module for pictures cannot be opened: " + problem,
                "it needs libjpeg, libpng, libwebp and libtiff: apt install libjpeg62-turbo libpng16-16 libwebp7 "
                "libtiff6, or install mlx anew");
  }
  return *module;
}

bool begins(ByteView file, std::string_view magic) {
  return as_text(file).starts_with(magic);
}

// A new format is a decoder, its declaration in codecs/codec.h, and a row.
struct PictureFormat {
  const char* name;
  const char* endings;  // of files' names, with a blank behind each
  bool (*is)(ByteView begin);
  PictureDecoder (*decoder)();
};
constexpr PictureFormat kPictureFormats[] = {
    {"JPEG", ".jpg .jpeg .jpe .jfif ", [](ByteView b) { return begins(b, "\xFF\xD8\xFF"); },
     [] { return images_module().jpeg; }},
    {"PNG", ".png ", [](ByteView b) { return begins(b, "\x89PNG"); }, [] { return images_module().png; }},
    {"WebP", ".webp ", [](ByteView b) { return b.size() >= 12 && begins(b, "RIFF") && begins(b.subspan(8), "WEBP"); },
     [] { return images_module().webp; }},
    {"TIFF", ".tif .tiff ",
     [](ByteView b) {
       for (const std::string_view magic : {"II*\0", "MM\0*", "II+\0", "MM\0+"})
         if (begins(b, {magic.data(), 4})) return true;
       return false;
     },
     [] { return images_module().tiff; }},
    {"BMP", ".bmp ", [](ByteView b) { return begins(b, "BM"); }, [] { return PictureDecoder{decode_bmp}; }},
    {"PGM and PPM", ".pgm .ppm ", formats::is_netpbm, [] { return PictureDecoder{decode_netpbm}; }},
    {"WAV", ".wav ", formats::is_wav, [] { return PictureDecoder{decode_wav}; }},
};

constexpr std::string_view kEndingsNotRead = ".gif .heic .heif .avif .jxl .jp2 .flac .mp3 .ogg .m4a ";

// ".jpg" for "a/1.JPG", "" for a path without a dot.
std::string ending_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  std::string ending(dot == std::string_view::npos ? "" : path.substr(dot));
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending;
}

const PictureFormat* format_of(ByteView file) {
  const auto* const found = std::ranges::find_if(kPictureFormats, [&](const auto& format) { return format.is(file); });
  return found == std::end(kPictureFormats) ? nullptr : found;
}

const PictureFormat& known_format(ByteView file, const std::string& name) {
  const PictureFormat* const format = format_of(file);
  if (format) return *format;
  if (file.empty()) fail(ErrorKind::kCorrupt, "{}: it is empty", name);
  throw Error(ErrorKind::kCorrupt, fmt::format("{}: it is no picture or sound of a known format", name),
              "known are " + picture_formats());
}

std::uint8_t* allocate(void* user, std::int64_t height, std::int64_t width, std::int64_t channels) {
  Picture& picture = *static_cast<Picture*>(user);
  try {
    picture.pixels.resize(static_cast<std::size_t>(height * width * channels));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  picture.height = height;
  picture.width = width;
  picture.channels = channels;
  return picture.pixels.data();
}

[[noreturn]] void fail_for(const PictureRequest& request, const PictureFormat& format, const std::string& name) {
  const std::string text = fmt::format("{}: {}: {}", name, format.name, request.message);
  switch (request.problem) {
    case PictureProblem::kUnsupported:
      throw Error(ErrorKind::kUsage, text, "convert it to PNG or JPEG, or remove it");
    case PictureProblem::kTooLarge:
      throw Error(ErrorKind::kUsage, text, "scale it down, or remove it");
    case PictureProblem::kNoMemory:
      throw Error(ErrorKind::kMissing, text);
    default:
      throw Error(ErrorKind::kCorrupt, text, "replace it or remove it");
  }
}

PictureRequest request_for(ByteView file, const DecodeOptions& options) {
  PictureRequest request{};
  request.file = file.data();
  request.size = file.size();
  request.wanted_channels = options.channels;
  request.enough_height = options.enough_height;
  request.enough_width = options.enough_width;
  request.max_pixels = options.max_pixels;
  request.allocate = allocate;
  request.orientation = 1;
  return request;
}

// In place where colour becomes grey.
void to_channels(Picture& picture, std::int64_t channels) {
  if (picture.channels == channels) return;
  const auto count = static_cast<std::size_t>(picture.height * picture.width);
  if (channels == 1) {
    std::uint8_t* const at = picture.pixels.data();
    for (std::size_t i = 0; i < count; ++i) at[i] = grey_of(at[3 * i], at[3 * i + 1], at[3 * i + 2]);
    picture.pixels.resize(count);
  } else {
    picture.pixels.resize(3 * count);
    std::uint8_t* const at = picture.pixels.data();
    for (std::size_t i = count; i-- > 0;) {
      const std::uint8_t grey = at[i];
      at[3 * i] = at[3 * i + 1] = at[3 * i + 2] = grey;
    }
  }
  picture.channels = channels;
}

Picture decode_request(PictureRequest& request, const PictureFormat& format, const std::string& name,
                       std::int64_t channels) {
  CHECK(channels == 1 || channels == 3);
  Picture picture;
  request.user = &picture;
  format.decoder()(&request);
  if (request.problem != PictureProblem::kNone) fail_for(request, format, name);
  to_channels(picture, channels);
  return upright(std::move(picture), request.orientation);
}

// Where `part` lies in what was decoded. Decoders leave rows and columns out of upright pictures only.
Box place_of(const Region& part, const PictureRequest& request) {
  const double scale = request.eighths > 0 ? static_cast<double>(request.eighths) / 8 : 1;
  const auto across = [&](std::int64_t column) {
    return static_cast<double>(column) * scale - static_cast<double>(request.first_column);
  };
  const auto down = [&](std::int64_t row) {
    return static_cast<double>(row) * scale - static_cast<double>(request.first_row);
  };
  return {across(part.left), down(part.top), across(part.left + part.width), down(part.top + part.height)};
}

}  // namespace

PictureHeader read_picture_header(ByteView file, const std::string& name) {
  const PictureFormat& format = known_format(file, name);
  PictureRequest request = request_for(file, {});
  request.header_only = true;
  format.decoder()(&request);
  if (request.problem != PictureProblem::kNone) fail_for(request, format, name);
  const bool turned = request.orientation >= 5;
  return {format.name, turned ? request.width : request.height, turned ? request.height : request.width,
          request.channels, request.icc};
}

Picture decode_picture(ByteView file, const std::string& name, const DecodeOptions& options) {
  const PictureFormat& format = known_format(file, name);
  PictureRequest request = request_for(file, options);
  return decode_request(request, format, name, options.channels);
}

PicturePart decode_part(ByteView file, const std::string& name, const Region& part, const DecodeOptions& options) {
  const PictureFormat& format = known_format(file, name);
  PictureRequest request = request_for(file, options);
  request.part_top = part.top, request.part_left = part.left;
  request.part_height = part.height, request.part_width = part.width;
  PicturePart out{decode_request(request, format, name, options.channels), {}};
  out.box = place_of(part, request);
  return out;
}

bool is_picture(ByteView begin) {
  return format_of(begin) != nullptr;
}

bool has_sound_name(std::string_view path) {
  return ending_of(path) == ".wav";
}

bool has_picture_name(std::string_view path) {
  const std::string ending = ending_of(path) + ' ';
  if (ending == " ") return false;
  const auto has = [&](std::string_view endings) { return endings.find(ending) != std::string_view::npos; };
  return has(kEndingsNotRead) ||
         std::ranges::any_of(kPictureFormats, [&](const PictureFormat& format) { return has(format.endings); });
}

std::string picture_formats() {
  std::string names;
  const std::size_t count = std::size(kPictureFormats);
  for (std::size_t i = 0; i < count; ++i) names += fmt::format("{}{}", i == 0 ? "" : ", ", kPictureFormats[i].name);
  return names;
}

std::string picture_libraries() {
  return images_module().libraries;
}

}  // namespace mlx::data
