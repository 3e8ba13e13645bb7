// Package process runs programs beside a test and talks with them in lines of text: commands to their standard input,
// answers from their output. A test package's own program can be started in another role, with an order in an
// environment variable.
package process
