// Package examples runs the example programs in the folders here, in its test. Each is a
// complete program of one file, ping and echo, or a package to copy, udplnd.
package examples
