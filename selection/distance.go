package selection

// Distances is a table of the NUMA distances between the CPTs of the machine. In a nil
// table all distances are 0.
type Distances struct {
	cpts    int
	table   []uint32
	largest uint32
}

// NewDistances returns a table in which rows[i][j] is the distance from CPT i to CPT j.
// Rows may be short; missing distances are 0.
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

// Between returns the distance from CPT a to CPT b. If one of them is not in the table,
// for example UnknownCPT, it returns the largest distance of the table (selection 5.3).
func (d *Distances) Between(a, b int) uint32 {
	if d == nil {
		return 0
	}
	if uint(a) >= uint(d.cpts) || uint(b) >= uint(d.cpts) {
		return d.largest
	}
	return d.table[a*d.cpts+b]
}
