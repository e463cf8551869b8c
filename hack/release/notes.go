package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// area is the package that a commit's subject begins with.
var area = regexp.MustCompile(`^([a-z0-9_.-]+)[a-z0-9_/., -]*: `)

// writeNotes writes how to install the release, its images, and the changes since the last
// tag, or all if there is no tag. A tree without git has no changes to list.
func (r *release) writeNotes(ctx context.Context, file, digests string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Sigma %s\n\nIn this folder:\n\n", r.version)
	for _, command := range []string{
		"sha256sum -c " + sums,
		"kubectl apply -f crds.yaml",
		"kubectl wait --for=condition=Established --timeout=1m -f crds.yaml",
		"kubectl apply -f install.yaml -f policy.yaml",
		"kubectl wait --for=condition=Active --timeout=5m placementpolicy/general",
	} {
		fmt.Fprintf(&b, "    %s\n", command)
	}
	fmt.Fprintf(&b, "\nThe policy `general` is then in shadow: it decides nothing. Or by Helm:\n\n"+
		"    helm install sigma sigma-%s.tgz --namespace sigma-system --create-namespace\n\n## Images\n\n", chartVersion(r.version))
	for line := range strings.Lines(digests) {
		fmt.Fprintf(&b, "- %s\n", strings.TrimSpace(line))
	}
	if _, err := os.Stat(filepath.Join(r.root, ".git")); err == nil {
		changes, err := r.changes(ctx)
		if err != nil {
			return err
		}
		b.WriteString(changes)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644) //nolint:gosec // others read it
}

func (r *release) changes(ctx context.Context) (string, error) {
	commits, since := "HEAD", ""
	if tag, err := r.run(ctx, nil, "git", "describe", "--tags", "--abbrev=0", "HEAD^"); err == nil { // fails without a tag
		since = strings.TrimSpace(tag)
		commits = since + "..HEAD"
		since = " since " + since
	}
	log, err := r.run(ctx, nil, "git", "log", "--no-merges", "--format=%s", commits)
	if err != nil {
		return "", err
	}
	subjects := map[string][]string{}
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		of := "other"
		if m := area.FindStringSubmatch(line); m != nil {
			of = m[1]
		}
		subjects[of] = append(subjects[of], line)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Changes%s\n", since)
	for _, of := range slices.Sorted(maps.Keys(subjects)) {
		fmt.Fprintf(&b, "\n### %s\n\n", of)
		for _, s := range subjects[of] {
			fmt.Fprintf(&b, "- %s\n", s)
		}
	}
	return b.String(), nil
}
