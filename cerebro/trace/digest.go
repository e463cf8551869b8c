package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// Digests returns digest.instance and digest.trace: "sha256:" and the
// hexadecimal SHA-256 of, for each file in the order of names,
//
//	name \0 length \0 content
//
// where length is the number of bytes of content in decimal digits. The content is our own
// canonical rewrite, as [Trace.Write] writes it, whatever the trace was read from.
// digest.instance covers apps.csv, machines.csv and rules.csv (a header line without
// rules), digest.trace apps.csv, events.csv, machines.csv, pairs.csv (only when apps have
// traffic), placed.csv (only with placed items), rules.csv and trace.yaml.
func (t *Trace) Digests() (instance, trace string, err error) {
	contents, err := t.canonical()
	if err != nil {
		return "", "", fmt.Errorf("digest of trace %s: %w", t.Name, err)
	}
	ofInstance, ofTrace := sha256.New(), sha256.New()
	for _, c := range contents {
		head := fmt.Appendf(nil, "%s\x00%d\x00", c.name, len(c.text))
		hashes := []hash.Hash{ofTrace}
		if c.name == appsFile || c.name == machinesFile || c.name == rulesFile {
			hashes = append(hashes, ofInstance)
		}
		for _, h := range hashes {
			h.Write(head)
			h.Write(c.text)
		}
	}
	return "sha256:" + hex.EncodeToString(ofInstance.Sum(nil)), "sha256:" + hex.EncodeToString(ofTrace.Sum(nil)), nil
}
