package seal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// age makes a file look as if it had not been touched for a while, by waiting for
// the clock to pass what settle asks for.
func age(t *testing.T, path string) {
	t.Helper()
	st, err := stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for !st.settledAt(time.Now()) {
		time.Sleep(time.Until(time.Unix(0, st.CTimeNS).Add(settle + time.Millisecond)))
	}
}

func sealed(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	put(t, filepath.Join(dir, "kernel"), strings.Repeat("kernel", 30000))
	put(t, filepath.Join(dir, "initrd"), "initrd")
	hole, err := os.Create(filepath.Join(dir, "memory"))
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	for off, s := range map[int64]string{3: "first", 9<<20 - 2: "across a block", 1 << 30: "end"} {
		if _, err := hole.WriteAt([]byte(s), off); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Write(t.Context(), dir, "kernel", "initrd", "memory"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, off int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
}

func TestIntactFilesVerify(t *testing.T) {
	dir := sealed(t)
	for range 2 {
		s, err := Verify(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := s.File("memory"); !ok || f.SparseSHA256 == "" || f.Size != 1<<30+3 {
			t.Errorf("memory was sealed as %+v", f)
		}
	}
}

func TestPlainSumIsTheUsualOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "abc")
	got, err := Sum(t.Context(), path)
	if err != nil || got.SHA256 != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("Sum = %+v, %v", got, err)
	}
}

// A copy may have its holes elsewhere, or none.
func TestSparseSumDoesNotDependOnHoles(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	content := make([]byte, 5*block+100)
	content[2*block+7], content[5*block+99] = 1, 2
	put(t, b, string(content))
	f, err := os.Create(a)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte{1}, 2*block+7)
	f.WriteAt([]byte{2}, 5*block+99)
	f.Close()
	x, _, err := measure(t.Context(), a, sparse)
	if err != nil {
		t.Fatal(err)
	}
	y, _, err := measure(t.Context(), b, sparse)
	if err != nil {
		t.Fatal(err)
	}
	if x != y {
		t.Errorf("with holes %+v, without %+v", x, y)
	}
	flip(t, b, 2*block+8)
	if z, _, err := measure(t.Context(), b, sparse); err != nil || z == x {
		t.Errorf("a flipped byte left the sum at %+v, %v", z, err)
	}
}

func TestDamageIsFound(t *testing.T) {
	cases := map[string]struct {
		damage func(t *testing.T, dir string)
		names  string // what the error must name
	}{
		"a flipped byte":             {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "kernel"), 99999) }, "kernel"},
		"a flipped byte of a sparse": {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "memory"), 9<<20+3) }, "memory"},
		"a byte in a hole":           {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "memory"), 500<<20) }, "memory"},
		"a flipped byte, time put back": {func(t *testing.T, dir string) {
			p := filepath.Join(dir, "kernel")
			fi, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			flip(t, p, 0)
			if err := os.Chtimes(p, fi.ModTime(), fi.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, "kernel"},
		"a file cut short": {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, "initrd"), 3) }, "initrd"},
		"a file gone":      {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "initrd")) }, "initrd"},
		"another file in its place": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "x"), "Initrd")
			os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "initrd"))
		}, "initrd"},
		"a link in its place": {func(t *testing.T, dir string) {
			os.Rename(filepath.Join(dir, "initrd"), filepath.Join(dir, "x"))
			os.Symlink("x", filepath.Join(dir, "initrd"))
		}, "initrd"},
		"the seal gone":    {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, Name)) }, Name},
		"the seal damaged": {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, Name), 60) }, ""},
		"the seal with more fields": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, Name), `{"version":1,"files":[],"more":1}`)
		}, Name},
		"the seal empty": {func(t *testing.T, dir string) { put(t, filepath.Join(dir, Name), "") }, Name},
		"the seal names elsewhere": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, Name), string(Seal{Version: 1, Files: []File{{Name: "../x", SHA256: "00"}}}.encode()))
		}, Name},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := sealed(t)
			for _, f := range []string{"kernel", "initrd", "memory"} {
				age(t, filepath.Join(dir, f))
			}
			if _, err := Verify(t.Context(), dir); err != nil { // everything is remembered now
				t.Fatal(err)
			}
			c.damage(t, dir)
			_, err := Verify(t.Context(), dir)
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("Verify: %v; want a broken seal that names %q", err, c.names)
			}
			if _, err := Verify(t.Context(), dir); !errors.Is(err, ErrBroken) {
				t.Errorf("Verify again: %v", err)
			}
		})
	}
}

// What was hashed is not hashed again, which shows where the stamp lies.
func TestWhatWasHashedIsRemembered(t *testing.T) {
	dir := sealed(t)
	for _, f := range []string{"kernel", "initrd", "memory"} {
		age(t, filepath.Join(dir, f))
	}
	s, err := Verify(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	known := loadStamps(dir, s.encode())
	if len(known.Files) != 3 {
		t.Fatalf("remembered %v", known.Files)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // hashing would fail now
	if _, err := Verify(ctx, dir); err != nil {
		t.Errorf("a second look hashed again: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, stampName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("without its memory: %v; want that it hashes, and so is canceled", err)
	}
}

// A write within one step of the file system's clock leaves the ctime alone, so
// a hash of a file that was just written is not remembered.
func TestAFreshFileIsNotRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "abc")
	_, st, err := measure(t.Context(), path, auto)
	if err != nil {
		t.Fatal(err)
	}
	if st != nil && time.Since(time.Unix(0, st.CTimeNS)) < settle {
		t.Error("a file that was just written was remembered")
	}
}

func TestStampsOfAnotherSealMeanNothing(t *testing.T) {
	dir := sealed(t)
	age(t, filepath.Join(dir, "initrd"))
	if _, err := Verify(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	s, _ := Read(dir)
	for i := range s.Files {
		if s.Files[i].Name == "initrd" {
			s.Files[i].SHA256 = strings.Repeat("0", 64)
		}
	}
	put(t, filepath.Join(dir, Name), string(s.encode()))
	if _, err := Verify(t.Context(), dir); !errors.Is(err, ErrBroken) {
		t.Errorf("Verify against another seal: %v", err)
	}
}

func TestDigestIsOfTheContent(t *testing.T) {
	a, b := sealed(t), sealed(t)
	x, err := Read(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := Read(b)
	if err != nil || x.Digest() != y.Digest() {
		t.Errorf("same files, digests %s and %s, %v", x.Digest(), y.Digest(), err)
	}
	put(t, filepath.Join(b, "initrd"), "other!")
	z, err := Write(t.Context(), b, "kernel", "initrd", "memory")
	if err != nil || z.Digest() == x.Digest() {
		t.Errorf("other files, same digest; %v", err)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "a")
	for _, names := range [][]string{{"../a"}, {"a", "a"}, {""}, {Name}, {"b"}, {"."}} {
		if _, err := Write(t.Context(), dir, names...); err == nil {
			t.Errorf("Write(%q) succeeded", names)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, Name)); err == nil {
		t.Error("a refused Write left a seal")
	}
}

func TestHashingStopsWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "a")
	if _, err := Write(ctx, dir, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
}
