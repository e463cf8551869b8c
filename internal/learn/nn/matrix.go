package nn

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// A Float is a number type that networks run in.
type Float interface{ float32 | float64 }

// A Matrix is dense and row-major: element (i, j) is Data[i·Cols + j].
type Matrix[T Float] struct {
	Rows, Cols int
	Data       []T
}

// NewMatrix makes a matrix of zeros.
func NewMatrix[T Float](rows, cols int) Matrix[T] {
	return Matrix[T]{Rows: rows, Cols: cols, Data: make([]T, rows*cols)}
}

// Row returns row i; writing to it changes the matrix.
func (m Matrix[T]) Row(i int) []T { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// rows returns the rows from and up to, but not with, to.
func (m Matrix[T]) rows(from, to int) Matrix[T] {
	return Matrix[T]{Rows: to - from, Cols: m.Cols, Data: m.Data[from*m.Cols : to*m.Cols]}
}

// want panics unless m has this size: any other is a bug.
func (m Matrix[T]) want(what string, rows, cols int) {
	if m.Rows != rows || m.Cols != cols || len(m.Data) != rows*cols {
		panic(fmt.Sprintf("nn: %s is %d × %d with %d numbers, want %d × %d", what, m.Rows, m.Cols, len(m.Data), rows, cols))
	}
}

// Gonum multiplies products of four and more blocks of 64 × 64 in goroutines of their
// own. Blocks of at most 64 × 192 stay in this one: no allocation, and one core.
const blockRows, blockCols = 64, 192

// product does c ← op(a)·op(b) + beta·c, where op transposes where it is asked to.
func product[T Float](transA, transB bool, a, b Matrix[T], beta T, c Matrix[T]) {
	inner := a.Cols
	if transA {
		inner = a.Rows
	}
	for i := 0; i < c.Rows; i += blockRows {
		m := min(blockRows, c.Rows-i)
		beginA := i * a.Cols
		if transA {
			beginA = i
		}
		for j := 0; j < c.Cols; j += blockCols {
			n := min(blockCols, c.Cols-j)
			beginB := j
			if transB {
				beginB = j * b.Cols
			}
			gemm(transA, transB, m, n, inner, a.Data[beginA:], a.Cols, b.Data[beginB:], b.Cols, beta, c.Data[i*c.Cols+j:], c.Cols)
		}
	}
}

func gemm[T Float](transA, transB bool, m, n, k int, a []T, strideA int, b []T, strideB int, beta T, c []T, strideC int) {
	opA, opB := blas.NoTrans, blas.NoTrans
	rowsA, colsA, rowsB, colsB := m, k, k, n
	if transA {
		opA, rowsA, colsA = blas.Trans, k, m
	}
	if transB {
		opB, rowsB, colsB = blas.Trans, n, k
	}
	switch c := any(c).(type) {
	case []float32:
		blas32.Gemm(opA, opB, 1,
			blas32.General{Rows: rowsA, Cols: colsA, Data: any(a).([]float32), Stride: strideA},
			blas32.General{Rows: rowsB, Cols: colsB, Data: any(b).([]float32), Stride: strideB},
			float32(beta), blas32.General{Rows: m, Cols: n, Data: c, Stride: strideC})
	case []float64:
		blas64.Gemm(opA, opB, 1,
			blas64.General{Rows: rowsA, Cols: colsA, Data: any(a).([]float64), Stride: strideA},
			blas64.General{Rows: rowsB, Cols: colsB, Data: any(b).([]float64), Stride: strideB},
			float64(beta), blas64.General{Rows: m, Cols: n, Data: c, Stride: strideC})
	}
}

// transpose writes mᵀ to out, which has room for it.
func transpose[T Float](m Matrix[T], out []T) Matrix[T] {
	t := Matrix[T]{Rows: m.Cols, Cols: m.Rows, Data: out[:m.Rows*m.Cols]}
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			t.Data[j*t.Cols+i] = v
		}
	}
	return t
}

// addColumnSums does sums[j] ← sums[j] + Σᵢ m[i, j].
func addColumnSums[T Float](m Matrix[T], sums []T) {
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			sums[j] += v
		}
	}
}

// fillRows writes row to each row of m.
func fillRows[T Float](m Matrix[T], row []T) {
	for i := range m.Rows {
		copy(m.Row(i), row)
	}
}
