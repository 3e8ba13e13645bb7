package figures

import (
	"math"
	"math/big"
	"math/bits"
)

// Sums has what is needed to compute minimum, maximum, average and deviation of a series of samples. Sum
// has 128 bits and Squares has 192, lowest word first, so that neither overflows before 2^64 samples.
// The zero value has no samples. All methods work with any values in the fields, also with values
// received from another host.
type Sums struct {
	Count   uint64    `json:"count"`
	Min     uint64    `json:"min"`
	Max     uint64    `json:"max"`
	Sum     [2]uint64 `json:"sum"`
	Squares [3]uint64 `json:"squares"`
}

// Add adds a sample.
func (s *Sums) Add(v uint64) {
	if s.Count == 0 || v < s.Min {
		s.Min = v
	}
	s.Max = max(s.Max, v)
	s.Count++
	s.sum([2]uint64{v})
	high, low := bits.Mul64(v, v)
	s.squares([3]uint64{low, high})
}

// Merge adds the samples of another series to s.
func (s *Sums) Merge(o *Sums) {
	if o.Count == 0 {
		return
	}
	if s.Count == 0 || o.Min < s.Min {
		s.Min = o.Min
	}
	s.Max = max(s.Max, o.Max)
	s.Count += o.Count
	s.sum(o.Sum)
	s.squares(o.Squares)
}

func (s *Sums) sum(v [2]uint64) {
	var carry uint64
	s.Sum[0], carry = bits.Add64(s.Sum[0], v[0], 0)
	s.Sum[1], _ = bits.Add64(s.Sum[1], v[1], carry)
}

func (s *Sums) squares(v [3]uint64) {
	var carry uint64
	for k := range v {
		s.Squares[k], carry = bits.Add64(s.Squares[k], v[k], carry)
	}
}

// Mean returns the average, or 0 if there are no samples.
func (s *Sums) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return quotient(number(s.Sum[:]), number([]uint64{s.Count}))
}

// Deviation returns the sample standard deviation (with n-1), or 0 for fewer than two samples.
func (s *Sums) Deviation() float64 {
	if s.Count < 2 {
		return 0
	}
	n, sum := number([]uint64{s.Count}), number(s.Sum[:])
	// (n Σx² - (Σx)²) / (n (n-1))
	above := new(big.Int).Mul(n, number(s.Squares[:]))
	above.Sub(above, new(big.Int).Mul(sum, sum))
	if above.Sign() <= 0 {
		return 0
	}
	below := new(big.Int).Mul(n, number([]uint64{s.Count - 1}))
	return math.Sqrt(quotient(above, below))
}

func number(words []uint64) *big.Int {
	n := new(big.Int)
	for k := len(words) - 1; k >= 0; k-- {
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(words[k]))
	}
	return n
}

func quotient(a, b *big.Int) float64 {
	f, _ := new(big.Rat).SetFrac(a, b).Float64()
	return f
}
