package rig

import (
	"errors"
	"fmt"
	"net/http"
)

// Code is the stable name of a kind of failure. Programs branch on codes;
// people read the message. The text of a message may change, a code does not.
type Code string

// The codes.
const (
	CodeInvalidRequest  Code = "invalidRequest"  // the request is malformed; Field names where
	CodeUnauthenticated Code = "unauthenticated" // no token, or one that is unknown, revoked or expired
	CodeForbidden       Code = "forbidden"       // known, but not allowed; also a foreign Host or Origin
	CodeDenied          Code = "denied"          // a guardrail says no, or the person who was asked did, or nobody was there to ask
	CodeControlHeld     Code = "controlHeld"     // somebody else holds control of the rig; Holder says who
	CodeNotFound        Code = "notFound"        // no such rig, space, file …
	CodeAmbiguous       Code = "ambiguous"       // a prefix that several rigs share
	CodeConflict        Code = "conflict"        // the thing is in a state in which this cannot be done
	CodeNotReady        Code = "notReady"        // the rig is still provisioning
	CodeGone            Code = "gone"            // the rig is closed
	CodeBackendFailure  Code = "backendFailure"  // the machine, its keeper or its guest died or misbehaved
	CodeUnavailable     Code = "unavailable"     // this host cannot do it: something is missing
	CodeCapacity        Code = "capacity"        // no memory, disk or slot is left
	CodeIntegrity       Code = "integrity"       // a digest does not match
	CodeTooLarge        Code = "tooLarge"        // over a limit that the message names
	CodeTimeout         Code = "timeout"         // a deadline passed
	CodeCanceled        Code = "canceled"        // the caller went away
	CodeInternal        Code = "internal"        // a fault of ours
)

// status maps each code to its HTTP status.
var status = map[Code]int{
	CodeInvalidRequest: http.StatusBadRequest, CodeUnauthenticated: http.StatusUnauthorized,
	CodeDenied: http.StatusForbidden, CodeControlHeld: http.StatusLocked,
	CodeForbidden: http.StatusForbidden, CodeNotFound: http.StatusNotFound, CodeAmbiguous: http.StatusConflict,
	CodeConflict: http.StatusConflict, CodeNotReady: http.StatusConflict, CodeGone: http.StatusGone,
	CodeBackendFailure: http.StatusBadGateway, CodeUnavailable: http.StatusServiceUnavailable,
	CodeCapacity: http.StatusInsufficientStorage, CodeIntegrity: http.StatusInternalServerError,
	CodeTooLarge: http.StatusRequestEntityTooLarge, CodeTimeout: http.StatusGatewayTimeout,
	CodeCanceled: 499, CodeInternal: http.StatusInternalServerError,
}

// HTTPStatus is the status that a problem with this code is sent with.
func (c Code) HTTPStatus() int {
	if s, ok := status[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Problem is an RFC 9457 problem (application/problem+json) and an error.
// Detail reads "what failed: why: what helps".
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title,omitempty"`
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail"`
	Code   Code   `json:"code"`
	Field  string `json:"field,omitempty" doc:"The field of the request that is wrong"`
	// Holder is who holds control, with CodeControlHeld.
	Holder *Principal `json:"holder,omitempty"`
	// Approval is the request that was answered, or not, with CodeDenied.
	Approval string `json:"approval,omitempty" doc:"Id of the approval that was asked for"`
	cause    error
}

func (p *Problem) Error() string { return p.Detail }

// Unwrap returns the error that Errorf was given with %w, if any.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus makes a Problem an error of the HTTP framework's.
func (p *Problem) GetStatus() int {
	if p.Status != 0 {
		return p.Status
	}
	return p.Code.HTTPStatus()
}

// ContentType makes problems go out as RFC 9457 says.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Errorf makes a Problem. %w is understood as by fmt.Errorf.
func Errorf(code Code, format string, args ...any) *Problem {
	err := fmt.Errorf(format, args...)
	return &Problem{Title: http.StatusText(code.HTTPStatus()), Status: code.HTTPStatus(), Detail: err.Error(), Code: code, cause: errors.Unwrap(err)}
}

// FieldErrorf is Errorf(CodeInvalidRequest, …) for one field.
func FieldErrorf(field, format string, args ...any) *Problem {
	p := Errorf(CodeInvalidRequest, format, args...)
	p.Field = field
	return p
}

// AsProblem returns err's Problem, or wraps any other error as CodeInternal.
// It returns nil for nil.
func AsProblem(err error) *Problem {
	if err == nil {
		return nil
	}
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return Errorf(CodeInternal, "%w", err)
}

// CodeOf returns the code of err, CodeInternal for an error without one and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsProblem(err).Code
}
