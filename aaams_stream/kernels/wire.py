"""Label maps as few bytes: each line is told by how it differs from the one above."""

from __future__ import annotations

from numba import njit

# A line is a list of runs, each with its first pixel and its label. The codes go through the runs
# of the line above in order; live/wire.py tells what each means.
KEEP = 3  # and up to three less or more: the next run above goes on, moved by so many pixels
DROP = 7
NEW = 8
FAR = 9
END = 10


@njit(cache=True, nogil=True, error_model="numpy")
def code_runs(rows, lengths, count, width, codes, values):
    """Write codes and values of a label map; return how many bytes of each there are.

    rows uint32, lengths uint16 (m,): of `count` runs in raster order, none beyond a line of
    `width` pixels. Writes codes uint8 and values uint8, the latter numbers of seven bits a byte;
    there is room for two codes and eight values a run, and a code a line.
    """
    n = v = 0
    above = above_end = 0  # runs of the line above
    at = 0
    while at < count:
        end, x = at, 0
        while x < width:
            x += int(lengths[end])  # as plain Python too: lines may be long
            end += 1
        i, over = above, 0  # the run above that is next, and where it begins
        begin, before = 0, 0
        for j in range(at, end):
            matched = False
            # runs above that end too early, or of labels that are gone, are dropped
            k, place = i, over
            while k < above_end and place <= begin + 3:
                if rows[k] == rows[j] and place >= begin - 3:
                    matched = True
                    break
                place += int(lengths[k])
                k += 1
            if matched:
                for _ in range(k - i):
                    codes[n] = DROP
                    n += 1
                codes[n] = KEEP + begin - place
                n += 1
                i, over = k + 1, place + int(lengths[k])
            elif i < above_end and rows[i] == rows[j]:
                codes[n] = FAR
                n += 1
                moved = begin - over
                v = put(values, v, 2 * moved if moved >= 0 else -2 * moved - 1)
                over += int(lengths[i])
                i += 1
            else:
                codes[n] = NEW
                n += 1
                v = put(values, v, begin - before)
                v = put(values, v, int(rows[j]))
            before = begin
            begin += int(lengths[j])
        codes[n] = END
        n += 1
        above, above_end, at = at, end, end
    return n, v


@njit(nogil=True, error_model="numpy")
def put(values, v, number):
    """Write a number of seven bits a byte, the lowest first; return the place behind it."""
    while number >= 128:
        values[v] = number & 127 | 128
        number >>= 7
        v += 1
    values[v] = number
    return v + 1
