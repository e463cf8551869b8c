# Reads the lines of TestRecordMonths, and writes them as a table and against their targets.
BEGIN {
	print "| seed | in force before the change | loop | mostallocated | first | hindsight | worst week against mostallocated % | change noticed after days | gap % | closed % | poison decided for h |"
	print "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
}
{
	gsub(/,|;|:/, " ")
	for (i = 1; i <= NF; i++) {
		if ($i == "seed") seed = $(i + 1)
		if ($i == "change" && $(i - 1) == "the") before = $(i + 1)
		if ($i == "loop") loop = $(i + 1)
		if ($i == "mostallocated") free = $(i + 1)
		if ($i == "first") first = $(i + 1)
		if ($i == "hindsight") best = $(i + 1)
		if ($i == "week") week = $(i + 1)
		if ($i == "day") noticed = $(i + 1) - 12
		if ($i == "it") { closed = $(i + 1); gap = $(i + 7) }
		if ($i == "for") poison = $(i + 1)
	}
	runs++
	if (week <= 1) weeks++
	if (noticed <= 2) soon++
	if (poison <= 3) quick++
	if (gap > 5) { large++; if (closed >= 50) half++ }
	if (closed != "-Inf" && closed >= 50) any++
	printf "| %s | %s | %s | %s | %s | %s | %s | %.2f | %s | %s | %s |\n", seed, before, loop, free, first, best, week, noticed, gap, closed == "-Inf" ? "none to close" : closed, poison
}
END {
	print ""
	print "| asked for | reached |"
	print "|---|---:|"
	print "| never worse than mostallocated by more than 1 % in a week | " weeks + 0 " of " runs " |"
	print "| the change is noticed within 2 days | " soon + 0 " of " runs " |"
	print "| the poisoned policy is rolled back within one watch interval, 3 h | " quick + 0 " of " runs " |"
	print "| at least half of the gap is closed after the change | " any + 0 " of " runs " |"
	print "| the same, where the gap is more than 5 % | " half + 0 " of " large + 0 " |"
}
