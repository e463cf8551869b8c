package crdtest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cells returns the columns that kubectl shows of an object without -o wide, except its
// age, from the API server's answer: a Table with one row.
func Cells(t *testing.T, answer []byte) map[string]any {
	t.Helper()
	var table metav1.Table
	require.NoError(t, json.Unmarshal(answer, &table))
	require.Len(t, table.Rows, 1)
	cells := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 && column.Name != "Age" {
			cells[column.Name] = table.Rows[0].Cells[i]
		}
	}
	return cells
}
