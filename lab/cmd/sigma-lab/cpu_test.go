package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell that waits for another, which works, and fails.
func TestCPU(t *testing.T) {
	const work = `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo "$1"; exit 7`
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, laboratory().Run(context.Background(), []string{"records", "cpu", "sh", "-c", work, "name", "--docs"}, &stdout, &stderr))
	require.Equal(t, "sigma-lab: exit status 7\n", stderr.String())
	var seconds float64
	n, err := fmt.Sscanf(stdout.String(), "--docs\n%f CPU-seconds\n", &seconds)
	require.NoError(t, err, stdout.String())
	require.Equal(t, 1, n)
	require.Greater(t, seconds, .01)
	require.Equal(t, 2, laboratory().Run(context.Background(), []string{"records", "cpu"}, &stdout, &stderr))
}
