// Artifacts, versions, aliases, tags and attachments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "registry/repository.h"

namespace mlx::registry {

enum class ArtifactKind { kDataset, kModel };
const char* kind_name(ArtifactKind kind);  // "dataset", "model"

struct Version {
  std::string artifact;  // "data/fashion", "clf"
  ArtifactKind kind = ArtifactKind::kDataset;
  int number = 0;  // the N of vN; 0 if a pointer names the digest but it was never committed
  Digest digest;   // of the manifest
  std::uint64_t files = 0, bytes = 0;
  std::string message;
  std::string run;               // the id of the run that made it, or ""
  std::optional<Digest> parent;  // the version it was derived from (quantize: the f32 model; add: the previous version)
  std::string actor;
  std::int64_t time = 0;
  Digest operation;  // that made the version; zero if it was never committed
  std::vector<std::string> aliases, tags;
  std::string name() const;  // "clf@v2"
};

// Oldest first; of all artifacts if `artifact` is empty.
std::vector<Version> versions(Repository& repository, const std::string& artifact = {});
// Visits the versions of all artifacts, one at a time, without aliases and tags.
void visit_versions(Repository& repository, const std::function<void(const Version&)>& visit);
std::optional<Version> version_of(Repository& repository, const std::string& artifact, const Digest& digest);
// One making of a version. The first in the list is the one that this clone recorded first; the others were made by
// people who knew of none before them.
struct Making {
  std::string actor, message;
  std::int64_t time = 0;
  Digest operation;
};
std::vector<Making> makings(Repository& repository, const Version& version);
std::vector<std::string> artifact_names(Repository& repository);

struct NewVersion {
  std::string artifact;
  ArtifactKind kind = ArtifactKind::kDataset;
  store::ManifestSummary manifest;
  std::string message, run;
  std::optional<Digest> parent;
};
// Commits under the next free number. If the artifact has this digest already, returns that version (`made` false).
struct Created {
  Version version;
  bool made = false;
};
// Throws kConflict if the name is one of artifacts of another kind, which create_version() refuses too.
void require_kind(Repository& repository, const std::string& artifact, ArtifactKind kind);
Created create_version(Repository& repository, const NewVersion& version);

// The versions that an alias means: none if it is new, several if it was moved on both sides of a merge.
std::vector<Version> named_by_alias(Repository& repository, const std::string& artifact, const std::string& alias);
// Records nothing if the alias already means this version and no other. `message`: why. `from`: the version that it
// must still mean, or else kConflict.
void move_alias(Repository& repository, const std::string& alias, const Version& to, const std::string& message = {},
                const std::optional<Digest>& from = {});
void create_tag(Repository& repository, const std::string& tag,
                const Version& on);  // kConflict if the tag is on another version
// The only way to remove a tag. False if it is not on this version.
bool delete_tag(Repository& repository, const std::string& tag, const Version& from);

// Every move that the alias ever made, oldest first.
struct AliasMove {
  std::string artifact, alias;
  Digest digest;
  std::string actor;
  std::int64_t time = 0;
  std::string message;  // why; "" if none was given
  Digest operation;
};
std::vector<AliasMove> alias_moves(Repository& repository, const std::string& artifact = {});

// Something learned about a version after it was made: a blob with a kind ("evaluation", "report", "calibration",
// "signature").
struct Attachment {
  Digest version, blob;
  std::string kind, name;  // `name` tells several of one kind apart, e.g. "data/fashion@<digest>#test"
  std::int64_t time = 0;
  std::string actor;
};
void attach(Repository& repository, const Digest& version, const std::string& kind, const std::string& name,
            ByteView blob);
std::vector<Attachment> attachments(Repository& repository, const Digest& version, const std::string& kind = {});

}  // namespace mlx::registry
