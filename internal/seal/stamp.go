package seal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// settle is how long a file must have been left alone before it is hashed for the
// result to be remembered. File times advance in steps (of up to 10 ms on Linux's
// local file systems), so that a write in the same step as an earlier one leaves the ctime as it was.
const settle = 100 * time.Millisecond

// stamp identifies a file's state without reading it.
type stamp struct {
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	MTimeNS int64  `json:"mtimeNs"`
	CTimeNS int64  `json:"ctimeNs"`
}

func (s stamp) settledAt(t time.Time) bool {
	return time.Unix(0, s.CTimeNS).Add(settle).Before(t)
}

// stamps are what files of a directory looked like when they were last hashed
// and found to be what the seal says.
type stamps struct {
	Seal  string           `json:"sealSha256"` // of the seal that they were compared with
	Files map[string]stamp `json:"files"`
}

// put remembers st, or forgets the file if st is nil.
func (s *stamps) put(name string, st *stamp) {
	if st == nil {
		delete(s.Files, name)
		return
	}
	s.Files[name] = *st
}

// loadStamps returns what is known of the directory. Whatever is unreadable or
// belongs to another seal is as good as nothing: the files are then hashed.
func loadStamps(dir string, seal []byte) stamps {
	none := stamps{Files: map[string]stamp{}}
	data, err := readSmall(filepath.Join(dir, stampName))
	if err != nil {
		return none
	}
	var s stamps
	if json.Unmarshal(data, &s) != nil || s.Files == nil || s.Seal != sealSum(seal) {
		return none
	}
	return s
}

// save keeps the stamps for the next time. They only save work, so a directory
// that cannot be written is not an error.
func (s *stamps) save(dir string, seal []byte) {
	s.Seal = sealSum(seal)
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers only
	}
	path := filepath.Join(dir, stampName)
	if replaceFile(path, data, false) != nil {
		// An old stamp must not outlive what it says, if it can be helped.
		_ = os.Remove(path)
	}
}

func sealSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
