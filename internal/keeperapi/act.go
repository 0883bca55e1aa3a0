package keeperapi

import (
	"time"

	"rigs/internal/guestapi"
)

// ActResult is what an action gave: the field of its verb is set.
type ActResult struct {
	Verb    string             `json:"verb"`
	Exec    *ExecResult        `json:"exec,omitempty"`
	File    *FileText          `json:"file,omitempty" doc:"Of read_file"`
	Written *guestapi.FileInfo `json:"written,omitempty" doc:"Of write_file"`
	Dir     *Listing           `json:"dir,omitempty" doc:"Of list_dir"`
	Screen  *guestapi.Screen   `json:"screen,omitempty"`
}

// FileText is a piece of a file.
type FileText struct {
	Path       string `json:"path"`
	Size       int64  `json:"size" doc:"Of the whole file"`
	Offset     int64  `json:"offset"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding" enum:"text,base64" doc:"Of content: base64 when the bytes are not UTF-8 text"`
	NextOffset int64  `json:"nextOffset,omitempty" doc:"Where what follows begins; absent at the end"`
}

// Listing is a directory, by name.
type Listing struct {
	Path    string  `json:"path"`
	Entries []Entry `json:"entries"`
	More    bool    `json:"more,omitempty" doc:"Entries were left out"`
}

// Entry is one entry of a directory.
type Entry struct {
	Name   string    `json:"name" doc:"Bytes that are not UTF-8 are shown as \\xNN"`
	Raw    []byte    `json:"raw,omitempty" doc:"The name as it is, when it is not UTF-8"`
	Type   string    `json:"type" enum:"file,dir,symlink,other"`
	Size   int64     `json:"size"`
	Mode   uint32    `json:"mode"`
	MTime  time.Time `json:"mtime"`
	Target string    `json:"target,omitempty" doc:"Of a symlink"`
}
