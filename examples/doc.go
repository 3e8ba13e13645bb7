// Package examples runs the example programs in the folders here, in its test. Each is a
// complete program of one file, ping, echo and client, or a package to copy, udplnd.
package examples
