// Package web is the page, as it was built by 'npm run build'. Before that
// Dist holds nothing to show, and the server says so.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Dist is what the build made: index.html and assets with hashes in their names.
var Dist = sub()

func sub() fs.FS {
	f, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is a constant
	}
	return f
}
