package guestapi

import "time"

// ReadFile asks for a piece of a regular file.
type ReadFile struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int    `json:"limit"` // 1 to MaxContent
}

// FilePiece is a piece of a file.
type FilePiece struct {
	Path   string `json:"path"` // absolute, cleaned
	Size   int64  `json:"size"` // of the whole file, as the file system says it
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
	More   bool   `json:"more,omitempty"` // there is more behind it
}

// WriteFile writes a file: whole, so that who reads it sees the old or the new one,
// or, with Append, at its end.
type WriteFile struct {
	Path   string `json:"path"`
	Data   []byte `json:"data"`
	Mode   uint32 `json:"mode,omitempty"` // 0: that of the file that is there, or 0644
	Append bool   `json:"append,omitempty"`
}

// ListDir asks for the entries of a directory.
type ListDir struct {
	Path  string `json:"path"`
	Limit int    `json:"limit"` // 1 to MaxEntries
}

// Dir is a directory, by name.
type Dir struct {
	Path    string     `json:"path"` // absolute, cleaned
	Entries []DirEntry `json:"entries"`
	More    bool       `json:"more,omitempty"` // there are entries that are left out
}

// DirEntry is one entry of a directory.
type DirEntry struct {
	// Name is the name, or, where that is not UTF-8, the name with \xNN for each
	// byte that is none, and Raw is the name as it is.
	Name   string    `json:"name"`
	Raw    []byte    `json:"raw,omitempty"`
	Type   string    `json:"type"` // file, dir, symlink, other
	Size   int64     `json:"size"`
	Mode   uint32    `json:"mode"`
	MTime  time.Time `json:"mtime"`
	Target string    `json:"target,omitempty"` // of a symlink, escaped as Name is
}

// ScreenRequest asks for the screen of a terminal session.
type ScreenRequest struct {
	Session string `json:"session"`
}

// Screen is what is visible in a terminal. Lines and rows count from 0.
type Screen struct {
	Session string   `json:"session"`
	Size    Size     `json:"size"`
	Lines   []string `json:"lines"` // without blanks at their ends; lines at the end that are empty are left out
	Cursor  Cursor   `json:"cursor"`
}

// Cursor is a terminal's.
type Cursor struct {
	Col    int  `json:"col"`
	Row    int  `json:"row"`
	Hidden bool `json:"hidden,omitempty"`
}

// Limits of these.
const (
	MaxContent = 1 << 20 // bytes of a file in one request
	MaxEntries = 5000    // entries of a directory in one answer
	MaxActJSON = 4 << 20 // their bodies
)
