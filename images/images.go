// Package images holds the definitions of our own images: one YAML file each, named
// after the image. internal/image reads and builds them.
package images

import "embed"

// FS holds the definitions.
//
//go:embed *.yaml
var FS embed.FS
