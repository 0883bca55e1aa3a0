// Package account knows the users of a guest: their ids, groups, login
// environment, and how to do file operations with exactly their rights.
//
// It reads /etc/passwd and /etc/group itself and nothing else (no NSS): the
// binary is static, and an image's other sources of names are not asked.
package account
