"""The vocabulary, pure: names, key ranges, segments, layouts, positions, routing.

Values in, values out: nothing here knows of time, chance, files or the network. In reading order:

    names            topics, partitions, segments, namespaces: text to types and back
    key_range        parts of the key space        ring, murmur3     from a key to its place in it
    buckets          entry buckets of a segment    positions         where a stored entry is
    segment          one segment                   layout            all of them, at one epoch
    layout_flaws     what makes a layout wrong     new_layouts       what topics begin with
    layout_changes   planning splits and merges    lineage           who came before, who after
    routing          which segment takes a key     key_columns       the same for a column of keys
    record           what the store keeps of a topic, with segment_json, transition,
                     autoscale_override and json_fields
"""
