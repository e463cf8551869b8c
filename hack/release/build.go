package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are those that a release has images of. sigma-lab is for those who work on
// Sigma.
var programs = []string{"sigma", "sigma-scheduler", "sigma-extender", "sigma-mpa", "sigma-pilot", "sigma-gate", "sigma-flow"}

// source is a checkout and the files built from it.
type source struct {
	root              string
	version, revision string
	programs, archs   []string
	kept              string // folder of the built files: keepBinaries
}

// binary is the file of a program for a platform, which is built unless it is there.
func (s *source) binary(ctx context.Context, program, goos, goarch string) (string, error) {
	file := filepath.Join(s.kept, program+"-"+goos+"-"+goarch)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	return file, s.build(ctx, program, goos, goarch, file)
}

// build compiles a program for a platform into file: static, without paths, time or
// repository of the build, so that the same source gives the same bytes.
func (s *source) build(ctx context.Context, program, goos, goarch, file string) error {
	kubernetes, err := s.run(ctx, nil, "go", "list", "-m", "-f", "{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	// kube-scheduler's code has its version only from this flag.
	flags := "-s -w -buildid= -X main.version=" + s.version +
		" -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(kubernetes)
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	// The tag keeps 39 MB of methods out of sigma-scheduler, see hack/conntrack.
	env := []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off"}
	_, err = s.run(ctx, env, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", flags, "-o", file, "./cmd/"+program)
	return err
}

func (s *source) run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// check reports a program that the checkout does not have, before anything is built.
func (s *source) check() error {
	for _, p := range s.programs {
		if info, err := os.Stat(filepath.Join(s.root, "cmd", p)); err != nil || !info.IsDir() {
			return fmt.Errorf("no program %q in %s", p, filepath.Join(s.root, "cmd"))
		}
	}
	return nil
}
