package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong is said by flag, before anything is contacted.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	folders := []string{"--history=" + dir, "--state=" + dir, "--namespace=x"}
	for want, args := range map[string][]string{
		"--history is missing":                 {"--state=" + dir},
		"--state is missing":                   {"--history=" + dir},
		"want a folder":                        {"--history=" + file, "--state=" + dir},
		"no such file":                         {"--history=" + dir + "/none", "--state=" + dir},
		"--v -1":                               append(folders, "--v=-1"),
		"want host:port or :port":              append(folders, "--metrics-bind-address=8080"),
		"only a loopback address":              append(folders, "--metrics-plain-http"),
		"--namespace is empty":                 folders[:2],
		"--state is missing: a folder":         {"train"},
		"want FOLDER/TRAINING":                 {"train", "--state=" + dir, "--training=../x"},
		"there is no order":                    {"train", "--state=" + dir, "--training=general-u1/train-1"},
		"unknown command":                      append(folders, "now"),
		"no configuration has been provided":   append(folders, "--kubeconfig="+file),
		"--tls-private-key-file need each oth": append(folders, "--tls-cert-file="+file),
	} {
		c := command()
		c.SetArgs(args)
		require.ErrorContains(t, c.Execute(), want)
	}
}
