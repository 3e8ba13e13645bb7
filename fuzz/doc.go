// Package fuzz holds the fuzz targets: one for every decoder of bytes and parser of text that reads input
// of peers or administrators. Each target checks that nothing panics, that valid input encodes to the
// same bytes again, that errors name what is wrong, and that small input does not allocate much memory.
// Seeds are the worked examples of the specification and the recorded conversations. Inputs that revealed
// bugs stay in testdata as test cases. Targets for whole conversations (FuzzSocklndConnection,
// FuzzO2iblndStranger) run them with a driver alone, which takes a fraction of a millisecond. Ordinary
// tests run the same programs with whole nodes.
//
//	go test ./fuzz -fuzz '^FuzzLnetNID$' -fuzztime 10s
package fuzz
