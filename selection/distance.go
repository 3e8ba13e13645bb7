package selection

// Distances are the NUMA distances between the CPTs of the machine. The nil
// table makes all equal.
type Distances struct {
	cpts    int
	table   []uint32
	largest uint32
}

// NewDistances takes the distance from each CPT to each other, as many columns
// as rows; what a row lacks counts as 0.
func NewDistances(rows [][]uint32) *Distances {
	d := &Distances{cpts: len(rows), table: make([]uint32, len(rows)*len(rows))}
	for k, row := range rows {
		copy(d.table[k*d.cpts:(k+1)*d.cpts], row)
	}
	for _, v := range d.table {
		d.largest = max(d.largest, v)
	}
	return d
}

// Between is the distance from CPT a to CPT b: the largest of all if the table
// does not know one of them (selection 5.3).
func (d *Distances) Between(a, b int) uint32 {
	if d == nil {
		return 0
	}
	if uint(a) >= uint(d.cpts) || uint(b) >= uint(d.cpts) {
		return d.largest
	}
	return d.table[a*d.cpts+b]
}
