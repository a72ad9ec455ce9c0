use super::*;
use alloc::vec;

const LIMIT: u64 = 0x7f7f_ffff_f000;

struct Ph {
    kind: u32,
    flags: u32,
    offset: u64,
    addr: u64,
    file_len: u64,
    mem_len: u64,
}

fn load(flags: u32, offset: u64, addr: u64, file_len: u64, mem_len: u64) -> Ph {
    Ph { kind: PT_LOAD, flags, offset, addr, file_len, mem_len }
}

fn header(kind: u16, count: u16) -> Vec<u8> {
    let mut b = vec![0u8; HEADER_SIZE];
    b[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    b[16..18].copy_from_slice(&kind.to_le_bytes());
    b[18..20].copy_from_slice(&EM_X86_64.to_le_bytes());
    b[24..32].copy_from_slice(&0x40_1000u64.to_le_bytes());
    b[32..40].copy_from_slice(&64u64.to_le_bytes());
    b[54..56].copy_from_slice(&56u16.to_le_bytes());
    b[56..58].copy_from_slice(&count.to_le_bytes());
    b
}

fn table(entries: &[Ph]) -> Vec<u8> {
    let mut b = Vec::new();
    for e in entries {
        b.extend_from_slice(&e.kind.to_le_bytes());
        b.extend_from_slice(&e.flags.to_le_bytes());
        for v in [e.offset, e.addr, e.addr, e.file_len, e.mem_len, 4096] {
            b.extend_from_slice(&v.to_le_bytes());
        }
    }
    b
}

fn image(entries: &[Ph]) -> Result<Image> {
    let header = Header::parse(&header(ET_EXEC, entries.len() as u16)).unwrap();
    Image::parse(header, &table(entries), LIMIT)
}

#[test]
fn reads_an_ordinary_executable() {
    let got = image(&[
        Ph { kind: PT_INTERP, flags: PF_R, offset: 0x318, addr: 0x40_0318, file_len: 28, mem_len: 28 },
        load(PF_R, 0, 0x40_0000, 0x500, 0x500),
        load(PF_R | PF_X, 0x1000, 0x40_1000, 0x2345, 0x2345),
        load(PF_R | PF_W, 0x3e10, 0x40_4e10, 0x210, 0x1900),
        Ph { kind: PT_GNU_STACK, flags: PF_R | PF_W, offset: 0, addr: 0, file_len: 0, mem_len: 0 },
    ])
    .unwrap();
    assert_eq!(got.interpreter, Some((0x318, 28)));
    assert_eq!(got.exec_stack, Some(false));
    assert_eq!(got.table_addr, Some(0x40_0040));
    assert_eq!((got.start(), got.end()), (0x40_0000, 0x40_7000));
    let data = &got.segments[2];
    assert_eq!((data.page_start(), data.file_end(), data.page_end()), (0x40_4000, 0x40_6000, 0x40_7000));
    assert_eq!(data.page_offset(), 0x3000);
    assert!(data.write && !data.exec);
}

#[test]
fn refuses_bad_headers() {
    let good = header(ET_DYN, 1);
    assert_eq!(Header::parse(&good).unwrap().kind, Kind::Dynamic);
    for cut in 0..HEADER_SIZE {
        assert_eq!(Header::parse(&good[..cut]), Err(Errno::ENOEXEC));
    }
    for (at, value) in [(0, 0), (4, 1), (5, 2), (16, 1), (16, 4), (18, 3), (54, 32), (56, 0), (57, 0xff)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(Header::parse(&bad), Err(Errno::ENOEXEC), "byte {at} = {value}");
    }
}

#[test]
fn refuses_bad_segments() {
    assert_eq!(image(&[Ph { kind: PT_GNU_STACK, ..load(0, 0, 0, 0, 0) }]), Err(Errno::EINVAL), "nothing to load");
    assert_eq!(image(&[load(PF_R, 0, 0x40_0000, 2, 1)]), Err(Errno::EINVAL), "file longer than memory");
    assert_eq!(image(&[load(PF_R, 1, 0x40_0000, 8, 8)]), Err(Errno::EINVAL), "offset and address differ in a page");
    assert_eq!(image(&[load(PF_R, 0, LIMIT, 8, 8)]), Err(Errno::EINVAL), "above the limit");
    assert_eq!(image(&[load(PF_R, 0, !4095, 8, 8)]), Err(Errno::EINVAL));
    assert_eq!(image(&[load(PF_R, 0, 0x40_0000, 0, u64::MAX)]), Err(Errno::ENOMEM), "wraps");
    assert_eq!(image(&[load(PF_R, 0, LIMIT - 4096, 0, 4097)]), Err(Errno::ENOMEM));
    assert_eq!(image(&[load(PF_R, !4095, 0x40_0000, 4096, 4096)]), Err(Errno::EINVAL), "offset wraps");
    let overlap = [load(PF_R, 0, 0x40_0000, 0x1001, 0x1001), load(PF_R, 0x1000, 0x40_1000, 8, 8)];
    assert_eq!(image(&overlap), Err(Errno::EINVAL));
    assert_eq!(image(&[load(PF_R, 0, 0x40_1000, 8, 8), load(PF_R, 0, 0x40_0000, 8, 8)]), Err(Errno::EINVAL));
    for file_len in [0, 1, PATH_MAX + 1, u64::MAX] {
        let interp = Ph { kind: PT_INTERP, ..load(0, 0, 0, file_len, file_len) };
        assert_eq!(image(&[load(PF_R, 0, 0x40_0000, 8, 8), interp]), Err(Errno::ENOEXEC));
    }
    let header = Header::parse(&header(ET_EXEC, 2)).unwrap();
    let cut = table(&[load(PF_R, 0, 0x40_0000, 8, 8)]);
    assert_eq!(Image::parse(header, &cut, LIMIT), Err(Errno::ENOEXEC), "table cut short");
}

#[test]
fn interpreter_needs_a_terminator() {
    assert_eq!(interpreter_path(b"/lib/ld.so\0").unwrap(), b"/lib/ld.so");
    assert_eq!(interpreter_path(b"/lib\0junk\0").unwrap(), b"/lib");
    assert_eq!(interpreter_path(b"/lib/ld.so"), Err(Errno::ENOEXEC));
    assert_eq!(interpreter_path(b""), Err(Errno::ENOEXEC));
}

/// With any input: no panic, and an accepted image is consistent.
#[test]
fn survives_random_bytes() {
    let mut seed = 1u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut table = table(&[
            load(5, 0, 0x40_0000, 0x1234, 0x1234),
            load(6, 0x2000, 0x40_2000, 0x800, 0x1800),
            load(4, 0x4000, 0x40_4000, 0x10, 0x10),
        ]);
        for _ in 0..1 + random() % 3 {
            let at = random() as usize % table.len();
            table[at] = if random() % 2 == 0 { random() as u8 } else { [0, 0xff, 0x7f, 0x80][random() as usize % 4] };
        }
        let header = Header::parse(&header(ET_DYN, 3)).unwrap();
        let Ok(image) = Image::parse(header, &table, LIMIT) else { continue };
        accepted += 1;
        let mut at = 0;
        for s in &image.segments {
            assert!(s.addr >= at && s.page_start() <= s.addr && s.file_end() <= s.page_end());
            assert!(s.page_end() <= LIMIT);
            if s.file_len != 0 {
                assert!(s.page_offset() <= s.offset);
            }
            at = s.addr + s.mem_len;
        }
    }
    assert!(accepted > 100);
}
