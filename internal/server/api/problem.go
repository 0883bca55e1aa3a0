package api

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/rig"
)

// The framework's own errors are problems with our codes, too. It has one hook
// for that, which is global.
func init() { huma.NewError = newError }

// codes are those of the statuses that the framework itself answers with.
var codes = map[int]rig.Code{
	http.StatusBadRequest: rig.CodeInvalidRequest, http.StatusUnprocessableEntity: rig.CodeInvalidRequest,
	http.StatusUnsupportedMediaType: rig.CodeInvalidRequest, http.StatusNotAcceptable: rig.CodeInvalidRequest,
	http.StatusRequestEntityTooLarge: rig.CodeTooLarge, http.StatusRequestTimeout: rig.CodeTimeout,
	http.StatusNotFound: rig.CodeNotFound, http.StatusUnauthorized: rig.CodeUnauthenticated, http.StatusForbidden: rig.CodeForbidden,
}

var required = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// fieldOf is the name of the field that a detail is about, as the caller wrote
// it: without where it was found.
func fieldOf(d *huma.ErrorDetail) string {
	where, name, _ := strings.Cut(d.Location, ".")
	switch m := required.FindStringSubmatch(d.Message); {
	case m != nil && name == "":
		return m[1]
	case m != nil:
		return name + "." + m[1]
	case where == "body" || where == "query" || where == "path":
		return name
	}
	return d.Location
}

func newError(status int, msg string, errs ...error) huma.StatusError {
	for _, err := range errs {
		var p *rig.Problem
		if errors.As(err, &p) {
			return p
		}
	}
	code, ok := codes[status]
	if !ok {
		code = rig.CodeInternal
	}
	var p *rig.Problem
	var details []string
	field := ""
	for _, err := range errs {
		var d huma.ErrorDetailer
		switch {
		case err == nil:
		case errors.As(err, &d):
			ed := d.ErrorDetail()
			at := fieldOf(ed)
			if field == "" {
				field = at
			}
			if at != "" {
				at += ": "
			}
			details = append(details, at+ed.Message)
		default:
			details = append(details, err.Error())
		}
	}
	if len(details) > 0 {
		msg += ": " + strings.Join(details, "; ")
	}
	p = rig.Errorf(code, "%s", msg)
	p.Field = field
	return p
}
