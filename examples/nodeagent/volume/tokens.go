// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// tokensDir is the folder in that of a pod which has a record for each volume with tokens. Only the agent can enter
	// the folder of a pod, so that no container changes a record.
	tokensDir = "tokens"

	// maxTokenSize bounds what Token reads. A request of an API server has at most 1 MiB of headers.
	maxTokenSize = 1 << 20
)

// tokenRecord says which files of a volume are tokens: the SHA-256 of each by version and path. A path alone does not
// say it: a key of a Secret may have the same.
type tokenRecord map[string]map[string]string

// Token returns the token that Write wrote to a path of the volume, also in an earlier process. ok is false if the
// volume has another file at this path, or none.
func (t *Tree) Token(uid types.UID, volume, file string) (token File, ok bool) {
	if checkUID(uid) != nil || checkPath(volume) != nil || checkPath(file) != nil {
		return File{}, false
	}
	pod, err := t.pods.OpenRoot(string(uid))
	if err != nil {
		return File{}, false
	}
	defer release(pod)
	dir, err := pod.OpenRoot(path.Join(volumesDir, volume))
	if err != nil {
		return File{}, false
	}
	defer release(dir)
	version := currentVersion(dir)
	want, ok := readTokens(pod, volume)[version][path.Clean(file)]
	if !ok {
		return File{}, false
	}
	name := path.Join(version, file)
	info, err := dir.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxTokenSize {
		return File{}, false
	}
	// The sum also excludes a file that a container has put there.
	data, err := dir.ReadFile(name)
	if err != nil || sum(data) != want {
		return File{}, false
	}
	return File{Data: data, Mode: int32(info.Mode()), Token: true}, true
}

// recordTokens records the tokens of a new version, before it can be seen. It keeps those of the version that readers
// see until then.
func recordTokens(pod, dir *os.Root, volume, version string, payload Payload) error {
	before := readTokens(pod, volume)
	record := tokenRecord{}
	if current := currentVersion(dir); len(before[current]) > 0 {
		record[current] = before[current]
	}
	for name, file := range payload {
		if !file.Token {
			continue
		}
		if record[version] == nil {
			record[version] = map[string]string{}
		}
		record[version][name] = sum(file.Data)
	}
	if len(record) == 0 && len(before) == 0 {
		return nil
	}
	folder, err := openDir(pod, tokensDir, podDirMode)
	if err != nil {
		return err
	}
	defer release(folder)
	if len(record) == 0 {
		return folder.Remove(volume)
	}
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	// No volume has this name.
	temp := volume + ".tmp"
	if err := folder.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("recording the tokens: %w", err)
	}
	if err := folder.Rename(temp, volume); err != nil {
		return fmt.Errorf("recording the tokens: %w", err)
	}
	return nil
}

// readTokens returns the record of a volume. It is empty if there is none, or none that can be read: then no file
// counts as a token, and the agent requests it again.
func readTokens(pod *os.Root, volume string) (record tokenRecord) {
	data, err := pod.ReadFile(path.Join(tokensDir, volume))
	if err != nil || json.Unmarshal(data, &record) != nil {
		return nil
	}
	return record
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
