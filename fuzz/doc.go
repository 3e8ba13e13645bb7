// Package fuzz holds the fuzz targets: for every decoder of bytes and parser
// of text that takes what strangers or administrators write. Each target checks
// that nothing panics, that what was taken encodes to the same again, that
// errors name what is wrong, and that little input does not cost much memory.
// Seeds are the worked examples of the specification and the recorded
// conversations. Findings that were fixed stay in testdata as test cases.
// Targets whose subject is a whole conversation (FuzzSocklndConnection, FuzzO2iblndStranger) play
// it with a driver alone, which takes a fraction of a millisecond; ordinary tests play the same
// programs with whole nodes.
//
//	go test ./fuzz -fuzz '^FuzzLnetNID$' -fuzztime 10s
package fuzz
