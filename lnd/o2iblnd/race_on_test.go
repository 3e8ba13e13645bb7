//go:build race

package o2iblnd_test

const raceEnabled = true
