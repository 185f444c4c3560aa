# What `cmake --install` puts down works from wherever it is moved to, and with the component `bundle` takes nothing but
# the C and C++ libraries from the machine.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
! grep -q __asan_init "$mlx_binary" || exit 77

build=$(dirname "$mlx_binary")
cmake --install "$build" --prefix "$work/first" >/dev/null
cmake --install "$build" --prefix "$work/first" --component bundle >/dev/null
mkdir "$work/else where"
mv "$work/first" "$work/else where/mlx"
place="$work/else where/mlx"

expect 0 "$place/bin/mlx" version -v
has "$out" "onednn    2"
[ -f "$place/share/man/man1/mlx-train.1" ] || fail "no man page"
[ -f "$place/share/man/man7/mlx-security.7" ] || fail "no page on security"
[ -f "$place/share/man/man7/mlx-tutorial.7" ] || fail "no tutorial"
# bug: a guide was found only with MANPATH set by hand. A man that says where it looks stands for the real one.
mkdir "$work/bin" && printf '#!/bin/sh\necho "$MANPATH $1"\n' >"$work/bin/man" && chmod +x "$work/bin/man"
expect 0 env -u MANPATH PATH="$work/bin:$PATH" "$place/bin/mlx" help tutorial
same "$out" "$place/share/man: mlx-tutorial"
expect 0 env MANPATH=/elsewhere PATH="$work/bin:$PATH" "$place/bin/mlx" help format-pack
same "$out" "$place/share/man:/elsewhere mlx-format-pack"
# For the executable and the modules that it opens.
for binary in "$place/bin/mlx" "$place"/lib/mlx/mlx_*.so; do
  elsewhere=$(LD_LIBRARY_PATH="$place/lib/mlx" ldd "$binary" | grep -vE "$place/|linux-vdso|/ld-linux|lib(c|m|dl|pthread|rt|resolv|gcc_s|stdc\+\+)\.so" || true)
  [ -z "$elsewhere" ] || fail "$binary takes from the machine: $elsewhere"
done
elsewhere=$(LD_TRACE_LOADED_OBJECTS=1 "$place/bin/mlx" | grep -E 'not found|libgit2|libzstd|libsqlite3' | grep -v "$place/" || true)
[ -z "$elsewhere" ] || fail "mlx does not find its own libraries: $elsewhere"

# Without the bundle nothing but modules is there, and the machine's libraries are used.
cmake --install "$build" --prefix "$work/plain" >/dev/null
same "$(cd "$work/plain/lib/mlx" && ls | grep -cv '^mlx_' || true)" 0
expect 0 "$work/plain/bin/mlx" version
