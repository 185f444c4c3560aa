// Artifacts, versions, aliases, tags, attachments: who is called what.
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
  int number = 0;  // the N of vN; 0 where the digest stands in a pointer but was never committed
  Digest digest;   // of its manifest
  std::uint64_t files = 0, bytes = 0;
  std::string message;
  std::string run;               // id of the run that made it, "" for none
  std::optional<Digest> parent;  // version it was derived from (quantize: the f32 model; add: the version before)
  std::string actor;
  std::int64_t time = 0;
  Digest operation;  // that made it; zero where it was never committed
  std::vector<std::string> aliases, tags;
  std::string name() const;  // "clf@v2"
};

std::vector<Version> versions(Repository& repository,
                              const std::string& artifact = {});  // oldest first; all artifacts where empty
// The same of all artifacts, one at a time, without aliases and tags.
void visit_versions(Repository& repository, const std::function<void(const Version&)>& visit);
std::optional<Version> version_of(Repository& repository, const std::string& artifact, const Digest& digest);
// Who made the version: the first that this clone took in, and after it others who did not know of one before them.
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
// The next free number; where the artifact already has this digest, that version, unchanged (`made` false).
struct Created {
  Version version;
  bool made = false;
};
Created create_version(Repository& repository, const NewVersion& version);

// What an alias means: nothing where it is new, several versions where it was moved on both sides.
std::vector<Version> named_by_alias(Repository& repository, const std::string& artifact, const std::string& alias);
// Nothing is recorded where it means this version and no other. `message`: why.
void move_alias(Repository& repository, const std::string& alias, const Version& to, const std::string& message = {});
void create_tag(Repository& repository, const std::string& tag,
                const Version& on);  // kConflict where it stands elsewhere
// The only way in which a tag goes. False where it does not stand on this version.
bool delete_tag(Repository& repository, const std::string& tag, const Version& from);

// Every move that an alias ever made, oldest first.
struct AliasMove {
  std::string artifact, alias;
  Digest digest;
  std::string actor;
  std::int64_t time = 0;
  std::string message;  // why, "" where nobody said
  Digest operation;
};
std::vector<AliasMove> alias_moves(Repository& repository, const std::string& artifact = {});

// What is learned later about a version: a blob with a kind of its own ("evaluation", "report", "calibration",
// "signature").
struct Attachment {
  Digest version, blob;
  std::string kind, name;  // name: what distinguishes several of a kind, e.g. "data/fashion@<digest>#test"
  std::int64_t time = 0;
  std::string actor;
};
void attach(Repository& repository, const Digest& version, const std::string& kind, const std::string& name,
            ByteView blob);
std::vector<Attachment> attachments(Repository& repository, const Digest& version, const std::string& kind = {});

}  // namespace mlx::registry
