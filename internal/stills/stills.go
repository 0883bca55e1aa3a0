// Package stills is about the images that agents see: what one may be (SPEC §6),
// and how older ones leave a conversation while their descriptions stay.
//
// A Still has an id that is drawn from its bytes, so that whoever holds an image
// can name it again without a registry, and a line of description, which may
// hold words of a guest and is cleaned. Beside an image in a message stands its
// Line; Shed finds it there.
//
// The package is pure: it does no I/O and keeps nothing.
package stills

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"image"
	_ "image/jpeg" // the formats that a still can have
	_ "image/png"
	"strings"

	"rigs/internal/fence"
	"rigs/internal/rig"
)

// What a still may be (SPEC §6).
const (
	MaxWidth  = 1280    // pixels
	MaxHeight = 800     // pixels
	MaxBytes  = 1 << 20 // of the encoded image
	// MaxDescription bounds a description, in bytes.
	MaxDescription = 300
	// DefaultKeep is how many of the newest images stay in a conversation when
	// nobody says.
	DefaultKeep = 3
)

// Still is one image for an agent.
type Still struct {
	ID          string `json:"id" doc:"Drawn from the image's bytes: the same image has the same id"`
	Description string `json:"description" doc:"One line"`
	MediaType   string `json:"mediaType" enum:"image/png,image/jpeg"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	Data        []byte `json:"data"`
}

// New makes a still of an encoded image, or says which bound it breaks. Only
// the image's header is read.
func New(description string, data []byte) (Still, error) {
	if len(data) > MaxBytes {
		return Still{}, rig.Errorf(rig.CodeTooLarge, "a still of %d bytes: at most %d: scale it down or compress it more", len(data), MaxBytes)
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return Still{}, rig.Errorf(rig.CodeBackendFailure, "a still that is neither PNG nor JPEG: %w", err)
	}
	if cfg.Width > MaxWidth || cfg.Height > MaxHeight || cfg.Width < 1 || cfg.Height < 1 {
		return Still{}, rig.Errorf(rig.CodeTooLarge, "a still of %d×%d pixels: at most %d×%d: scale it down", cfg.Width, cfg.Height, MaxWidth, MaxHeight)
	}
	return Still{ID: ID(data), Description: Describe(description), MediaType: "image/" + format, Width: cfg.Width, Height: cfg.Height, Data: data}, nil
}

// ID is the id of an image: "st_" and 16 hex digits of the SHA-256 of its bytes.
func ID(data []byte) string {
	h := sha256.Sum256(data)
	return "st_" + hex.EncodeToString(h[:8])
}

// Describe makes a description one clean, bounded line.
func Describe(s string) string {
	s = strings.Join(strings.Fields(fence.Clean(s)), " ")
	if len(s) > MaxDescription {
		s = strings.ToValidUTF8(s[:MaxDescription-len("…")], "") + "…"
	}
	return s
}

// Line is what stands beside a still in a message.
func (s *Still) Line() string { return line(s.ID, s.Description) }

func line(id, description string) string { return "still " + id + ": " + description }
