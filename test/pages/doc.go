// Package pages runs the commands of the pages of docs and of README.md (internal/testing/pages), in network
// namespaces and on this host. It has only tests.
package pages
